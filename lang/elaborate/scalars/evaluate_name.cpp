// Evaluates names and fields: a binding, a constant of this file or of an imported one, N.
// Tests: tests/lang/check_golden_test.cpp, tests/lang/elaborate/trials/uncalled_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "lang/elaborate/evaluator.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

std::vector<std::string> values_of(const SourceFile& file) {
  std::vector<std::string> values;
  for (const auto& [name, decl] : file.names) {
    if (decl->kind == DeclKind::kLet || decl->kind == DeclKind::kOption) {
      values.emplace_back(name);
    }
  }
  return values;
}

}  // namespace

Datum Evaluator::eval_name(const Name& name, Scope& scope) {
  if (Local* local = scope.find(name.text)) {
    local->used = true;
    return local->value;
  }
  for (Scope* level = &scope; level != nullptr; level = level->parent) {
    if (level->resolve) {
      if (auto made = level->resolve(name.text, name.span)) {
        return *made;
      }
    }
  }
  if (name.text == "N") {
    return make_plain(DatumKind::kBatch);
  }
  if (scope.file != nullptr) {
    if (const DeclRef found = scope.file->find(name.text)) {
      if (found.decl->kind == DeclKind::kOption || found.decl->kind == DeclKind::kLet) {
        return eval_constant(found);
      }
      return refuse("XG0220", name.span, {"`{}` is a {}, not a value", name.text, keyword_of(found.decl->kind)}, "",
                    {"call it, {}(x), or put it after `->`", name.text});
    }
  }
  return unknown_name(name, scope);
}

Datum Evaluator::unknown_name(const Name& name, Scope& scope) {
  if (scope.file != nullptr && scope.file->is_missing(name.text)) {
    return {};  // reported at the import
  }
  if (find_op(name.text) != nullptr) {
    return refuse("XG0220", name.span, {"`{}` is an operator, not a value", name.text}, "",
                  {"call it, {}(x), or put it after `->`", name.text});
  }
  std::vector<std::string> values;
  for (Scope* level = &scope; level != nullptr; level = level->parent) {
    for (const auto& [known, local] : level->locals) {
      values.emplace_back(known);
    }
    values.insert(values.end(), level->resolvable.begin(), level->resolvable.end());
  }
  std::vector<std::string> others;
  if (scope.file != nullptr && scope.file->names.size() <= kMostCandidates) {
    for (const auto& [known, decl] : scope.file->names) {
      const bool is_value = decl->kind == DeclKind::kLet || decl->kind == DeclKind::kOption;
      (is_value ? values : others).emplace_back(known);
    }
  }
  constexpr size_t kFew = 12;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  others.insert(others.end(), values.begin(), values.end());
  Fix otherwise{scope.resolve ? fmt::format("bind it in the model or in `data`: {} = ...", name.text)
                              : fmt::format("bind it before this line: {} = ...", name.text)};
  if (!values.empty() && values.size() <= kFew) {
    otherwise.title += fmt::format("; known here: {}", fmt::join(values, ", "));
  }
  // A `//` before the name may be meant as the start of a comment: 0.1 // rate.
  const std::string_view before = sources_.text(name.span.file).substr(0, name.span.begin);
  const size_t sign = before.find_last_not_of(' ');
  if (sign != std::string_view::npos && sign > 0 && before.substr(sign - 1, 2) == "//") {
    const auto at = static_cast<uint32_t>(sign - 1);
    otherwise =
        replacement("if it is a comment, write `#`; `//` divides and rounds down", {name.span.file, at, at + 2}, "#");
  }
  Diagnostic d = fault("XG0201", name.span, {"there is no `{}` here", name.text},
                       scope.resolve ? "neither in the model nor in the data" : "unknown name",
                       did_you_mean(name.text, others, name.span, std::move(otherwise)));
  // The loss and the metrics of `train` use the same names, so an unknown one is reported only once.
  const auto& reported = diagnostics_.all();
  if (scope.resolve && std::any_of(reported.begin(), reported.end(), [&](const Diagnostic& known) {
        return known.message == d.message && known.primary.text == d.primary.text;
      })) {
    return {};
  }
  report(std::move(d));
  return {};
}

void Evaluator::set_option(const Decl* decl, Datum value, Span span) {
  if (decl->type_name.text == "float" && value.plain_number()) {
    value = make_real(value.as_double());  // `2` is a float if a float is declared
  } else if (const auto whole = whole_number(value); decl->type_name.text == "int" && whole) {
    value = make_whole(*whole);
  }
  value.span = value.origin = span;
  note(decl->name.span, value);
  constants_[decl] = {std::move(value), true};
}

Datum Evaluator::eval_constant(const DeclRef& decl) {
  if (const auto known = constants_.find(decl.decl); known != constants_.end()) {
    if (!known->second.second) {
      return refuse("XG0208", decl.decl->name.span, {"`{}` is defined in terms of itself", decl.decl->name.text},
                    "its value depends on itself", {"give it a value that does not need it"});
    }
    return known->second.first;
  }
  constants_[decl.decl] = {Datum(), false};
  Scope scope{.file = decl.file};
  const BuildsScalars none(scalars_, nullptr);  // a constant has one value for all its uses
  Datum value = eval(decl.file->ast, decl.decl->value, scope);
  if (value.kind == DatumKind::kTensor) {
    value = refuse("XG0205", value.span, "a constant cannot be a tensor", "",
                   {"tensors are made in models and blocks: move the line there"});
  }
  if (decl.decl->kind == DeclKind::kOption && !value.is_error()) {
    set_option(decl.decl, std::move(value), decl.decl->value.valid() ? decl.file->ast[decl.decl->value].span : Span());
    return constants_[decl.decl].first;
  }
  if (!value.origin.valid()) {
    value.origin = value.span;
  }
  constants_[decl.decl] = {value, true};
  note(decl.decl->name.span, value);
  return value;
}

Datum Evaluator::eval_field(const Ast& ast, const Expr& expr, Scope& scope) {
  const Expr& lhs = ast[expr.lhs];
  if (lhs.kind == ExprKind::kName && scope.file != nullptr && scope.find(lhs.name.text) == nullptr) {
    if (const auto module = scope.file->modules.find(lhs.name.text); module != scope.file->modules.end()) {
      const DeclRef found = module->second->find(expr.name.text);
      if (found && (found.decl->kind == DeclKind::kOption || found.decl->kind == DeclKind::kLet)) {
        return eval_constant(found);
      }
      return refuse("XG0201", expr.name.span, {"`{}` declares no value `{}`", module->second->path, expr.name.text},
                    "unknown name",
                    did_you_mean(expr.name.text, values_of(*module->second), expr.name.span,
                                 {"fields of an import are its options and lets: declare it there"}));
    }
    if (const DeclRef model = scope.file->find(DeclKind::kModel, lhs.name.text); model && in_test_) {
      const auto [known, fresh] = tested_.try_emplace(model.decl);
      Scope& inside = known->second;
      if (fresh) {
        // The model is built in the graph of the test, and its tensors get names of their own.
        TensorNames outer = std::exchange(work_.names, {});
        inside.file = model.file;
        build_model(model, inside);
        work_.names = std::move(outer);
      }
      if (Local* local = inside.find(expr.name.text)) {
        return local->value;
      }
      const auto bound = names_of(inside.locals, [](const auto& local) { return local.first; });
      return refuse(
          "XG0201", expr.name.span, {"model `{}` binds no `{}`", lhs.name.text, expr.name.text}, "unknown name",
          did_you_mean(expr.name.text, bound, expr.name.span, {"bind it in the model: {} = ...", expr.name.text}));
    }
  }
  if (lhs.kind == ExprKind::kName && scope.file != nullptr && scope.file->is_missing(lhs.name.text)) {
    return {};  // reported at the import
  }
  // If the name before the dot is unknown, as in digits.csv, the expression is taken for a path without its quotes.
  const bool known = lhs.kind != ExprKind::kName || scope.find(lhs.name.text) != nullptr || scope.resolve ||
                     scope.file == nullptr || scope.file->find(lhs.name.text);
  if (!known && lhs.name.text != "N") {
    return refuse("XG0201", lhs.name.span, {"there is no `{}` here", lhs.name.text}, "unknown name",
                  replacement("a path is written in double quotes", expr.span, {"\"{}\"", sources_.text(expr.span)}));
  }
  const Datum value = eval(ast, expr.lhs, scope);
  if (value.is_error()) {
    return value;
  }
  return refuse("XG0304", expr.name.span, {"{} has no field `{}`", kind_text(value), expr.name.text}, "",
                {"leave it out: only imports have fields, and models in tests"});
}

}  // namespace xrun::lang
