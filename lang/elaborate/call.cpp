// Calls: finds the operator, block or function with a name, and evaluates the call.
// Tests: tests/lang/check_test.cpp, tests/lang/check_golden_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"
#include "lang/text/foreign_names.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

bool is_measure(std::string_view name) {
  return name == "params" || name == "shape" || name == "flops" || name == "bytes";
}

// The names in the expression a.b.c; empty if the expression has another form.
std::vector<Name> names_of_path(const Ast& ast, ExprId id) {
  std::vector<Name> path;
  while (ast[id].kind == ExprKind::kField) {
    path.insert(path.begin(), ast[id].name);
    id = ast[id].lhs;
  }
  if (ast[id].kind != ExprKind::kName) {
    return {};
  }
  path.insert(path.begin(), ast[id].name);
  return path;
}

// The file that declares the name at the end of a path: the scope's own file, or the imported file in `file.name`; null
// if there is no such file.
const SourceFile* file_of_path(std::span<const Name> path, const Scope& scope) {
  if (path.size() > 2) {
    return nullptr;
  }
  if (path.size() == 2 && scope.file != nullptr) {
    const auto module = scope.file->modules.find(path[0].text);
    return module == scope.file->modules.end() ? nullptr : module->second;
  }
  return scope.file;
}

Callee::Kind kind_of(DeclKind kind) {
  return kind == DeclKind::kBlock       ? Callee::kBlock
         : kind == DeclKind::kFn        ? Callee::kFn
         : kind == DeclKind::kPointwise ? Callee::kPointwise
                                        : Callee::kUnknown;
}

}  // namespace

// The fix for an operator that only a later edition has: it names the available operators of its group.
Fix Evaluator::others_of_its_kind(const OpDef& op) const {
  const std::string names = listed(options_.ops->all(), [&](const OpDef* other) {
    const bool of_its_kind = other->group == op.group && !op.group.empty();
    return of_its_kind && other->is_word() && other->availability == Availability::kReady
               ? fmt::format("`{}`", other->name)
               : "";
  });
  return {names.empty() ? "leave it out, or compute it from operators of this edition"
                        : fmt::format("use one of the same kind that this edition has: {}", names)};
}

Datum Evaluator::same_label(Span at, std::string_view label) {
  return refuse("XG0209", at, {"two parts of this scope are called `{}`", label},
                "tensors take their names from labels", {"choose another one: as {}_2", label});
}

const OpDef* Evaluator::find_op(std::string_view name) const {
  const OpDef* op = options_.ops->find(name);
  return op != nullptr && op->is_word() ? op : nullptr;
}

DeclRef Evaluator::find_in_library(const char* file, std::string_view name) const {
  const SourceFile* const found = library_ ? library_(file) : nullptr;
  return found != nullptr ? found->find(name) : DeclRef{};
}

std::vector<std::string> Evaluator::names_in_library(const char* file) const {
  const SourceFile* const found = library_ ? library_(file) : nullptr;
  std::vector<std::string> names;
  for (const auto& [name, decl] : found != nullptr ? found->names : decltype(found->names)()) {
    names.emplace_back(name);
  }
  return names;
}

Callee Evaluator::find_callee(std::span<const Name> path, const Call& call, Scope& scope) {
  Callee callee{.name = join_path(path)};
  const Name& last = path.back();
  const SourceFile* file = file_of_path(path, scope);
  const DeclRef found = file != nullptr ? file->find(last.text) : DeclRef{};
  if (found) {
    callee.decl = found;
    callee.kind = kind_of(found.decl->kind);
    if (callee.kind == Callee::kUnknown) {
      refuse("XG0220", last.span, {"`{}` is a {} and cannot be called", callee.name, keyword_of(found.decl->kind)}, "",
             {"leave the call out, or call an operator, a block or a function"});
    }
    return callee;
  }
  if (path.size() == 1) {
    // `max` is an operator on tensors and a function of numbers: the arguments decide (call_by_kind).
    callee.op = find_op(last.text);
    if (callee.op != nullptr) {
      callee.kind = Callee::kOp;
      return callee;
    }
    if (is_builtin(last.text)) {
      callee.kind = Callee::kBuiltin;
      return callee;
    }
  }
  if (scope.file != nullptr && scope.file->is_missing(path[0].text)) {
    return callee;  // reported at the import
  }
  if (const DeclRef known = path.size() == 1 ? find_in_library("std/pointwise", last.text) : DeclRef{}) {
    callee.decl = known;
    callee.kind = Callee::kPointwise;
    return callee;
  }
  refuse_callee(path, call, scope);
  return callee;
}

// Whether the name is a function that the evaluator computes itself in the body that it is evaluating.
bool Evaluator::is_builtin(std::string_view name) const {
  const bool in_scalars = scalars_ != nullptr && scalar_function(name) != nullptr;
  const bool is_norm = scalars_ != nullptr && norms_ != nullptr && name == "norm";
  const bool is_mean = means_ != nullptr && name == "batch_mean";
  return in_scalars || is_norm || is_mean || is_constant_function(name) || (in_test_ && is_measure(name));
}

// Reports a called name that is not an operator, block or function.
void Evaluator::refuse_callee(std::span<const Name> path, const Call& call, Scope& scope) {
  const Name& last = path.back();
  const SourceFile* file = file_of_path(path, scope);
  // In `nn.Conv2d`, `nn` is the module of another framework.
  const bool is_plain = path.size() == 1 || file == nullptr;
  const bool is_value = scope.find(last.text) != nullptr && path.size() == 1;
  if (is_plain && last.text == "batch_mean") {
    refuse("XG0230", last.span, "`batch_mean` is allowed only in the assignment of a state",
           "not in such an assignment",
           {"declare one, state s: [64] = 0, and assign it: s = 0.9 * s + 0.1 * batch_mean(x)"});
    return;
  }
  if (is_value) {
    refuse("XG0220", last.span, {"`{}` is a value and cannot be called", last.text},
           "not an operator, block or function", {"leave the brackets out: a value is used by its name"});
    return;
  }
  const std::string name = join_path(path);
  const OpDef* meant = is_plain ? foreign_op(*options_.ops, last.text) : nullptr;
  const bool means_loss =
      foreign_name(NameKind::kFunction, last.text).empty() && !foreign_name(NameKind::kMetric, last.text).empty();
  auto fix = as_stages(path, call, scope);
  fix = fix || meant == nullptr ? fix : as_pipe(call, meant->name);
  fix = fix || meant != nullptr || !is_plain ? fix : without_identity(last, call);
  fix = fix || meant != nullptr ? fix : not_imported(last, call, scope);
  refuse("XG0201", last.span, {"there is no operator or block `{}`", name}, "unknown name",
         fix ? Help(std::move(*fix))
         : meant != nullptr
             ? Help(in_our_words(*meant, call, fmt::format("`{}` is `{}` here", name, meant->name)))
             : Help(our_name(means_loss ? NameKind::kMetric : NameKind::kFunction, last.text,
                             callable_names(file, is_plain), is_plain ? join(path.front().span, last.span) : last.span,
                             {"declare it, block {}(x: [N, C]) {{ return ... }}, or bring it in: from "
                              "\"FILE\" use {}",
                              last.text, last.text})));
}

// Returns the names of a file and, if `is_plain`, those that every file can use without an import.
std::vector<std::string> Evaluator::callable_names(const SourceFile* file, bool is_plain) const {
  std::vector<std::string> names;
  if (file != nullptr) {
    for (const auto& [known, decl] : file->names) {
      names.emplace_back(known);
    }
    for (const auto& [known, decl] : file->used) {
      names.emplace_back(known);
    }
  }
  if (is_plain) {
    for (const OpDef* op : options_.ops->all()) {
      if (op->is_word()) {
        names.emplace_back(op->name);
      }
    }
    const std::vector<std::string> known = names_in_library("std/pointwise");
    names.insert(names.end(), known.begin(), known.end());
  }
  return names;
}

Datum Evaluator::eval_call_expr(const Ast& ast, const Expr& expr, Scope& scope, const Name& label) {
  const Expr& lhs = ast[expr.lhs];
  std::vector<Name> path;
  if (lhs.kind == ExprKind::kName) {
    path = {lhs.name};
  } else if (lhs.kind == ExprKind::kField && ast[lhs.lhs].kind == ExprKind::kName) {
    path = {ast[lhs.lhs].name, lhs.name};
  } else if (path = names_of_path(ast, expr.lhs); path.size() > 2 && scope.find(path[0].text) == nullptr &&
                                                  foreign_op(*options_.ops, path.back().text) != nullptr) {
    // tf.keras.layers.Dense(8)
  } else {
    const Datum value = eval(ast, expr.lhs, scope);
    return value.is_error() ? value
                            : refuse("XG0220", lhs.span, {"{} cannot be called", kind_text(value)}, "",
                                     {"write the name of an operator, a block or a function before the brackets"});
  }
  const Call call{.ast = &ast, .args = ast[expr.args], .label = label, .span = expr.span, .name_span = lhs.span};
  return eval_call(find_callee(path, call, scope), call, scope);
}

Datum Evaluator::eval_call(const Callee& callee, const Call& call, Scope& scope) {
  constexpr int kMostCalls = 200;
  if (calls_ >= kMostCalls) {
    return too_deep(call.span);
  }
  ++calls_;
  const size_t owned = work_.graph.params.size();
  const size_t made = work_.graph.nodes.size();
  Datum value = call_by_kind(callee, call, scope);
  --calls_;
  note(call.name_span, value);
  note_call(call.name_span, owned, made);
  note_call(call.label.span, owned, made);
  return value;
}

Datum Evaluator::call_by_kind(const Callee& callee, const Call& call, Scope& scope) {
  if (scalars_ != nullptr && (callee.kind == Callee::kOp || callee.kind == Callee::kBuiltin)) {
    return scalar_call(callee, call, scope);
  }
  if (scalars_ != nullptr && callee.kind == Callee::kBlock) {
    return refuse("XG0220", call.name_span, {"`{}` is a block, so a `pointwise` cannot call it", callee.name},
                  "works on whole tensors", {"call it in a block, before or after the function"});
  }
  switch (callee.kind) {
    case Callee::kUnknown:
      return {};
    case Callee::kOp: {
      // Some names are both an operator and a function of numbers; the kind of the first argument then decides.
      const bool has_one = call.args.size() == (call.flowing ? 0U : 1U);
      const bool may_be_either =
          is_constant_function(callee.name) || (has_one && scalar_function(callee.name) != nullptr);
      const bool has_first = call.flowing || (!call.args.empty() && !call.args[0].name);
      return may_be_either && has_first ? call_by_first(callee, call, scope) : call_op(*callee.op, call, scope);
    }
    case Callee::kBuiltin:
      return is_measure(callee.name) ? call_measure(callee.name, call, scope) : call_builtin(callee.name, call, scope);
    case Callee::kFn:
      return call_fn(callee.decl, call, scope);
    case Callee::kPointwise:
      return call_pointwise(callee.decl, call, scope);
    case Callee::kBlock: {
      Scope env{.file = callee.decl.file};
      if (!has_room_for(callee.decl, call.span)) {
        return {};
      }
      const auto bound = bind(signatures_.of(callee.decl), call, scope, env);
      return bound ? call_block(callee.decl, *bound, env, call) : Datum();
    }
  }
  return {};
}

// Calls an operator, or the function of numbers with the same name if the first argument is not a tensor.
Datum Evaluator::call_by_first(const Callee& callee, const Call& call, Scope& scope) {
  Call flowing = call;
  if (!call.flowing) {
    // Evaluated only here: a second evaluation would double the work at every level of nested calls.
    flowing.flowing = eval(*call.ast, call.args[0].value, scope);
    flowing.args = call.args.subspan(1);
  }
  if (flowing.flowing->is_error()) {
    return {};
  }
  // max(x, y) of several tensors works element by element, whereas max(x, 1) reduces dimension 1.
  const bool by_place = std::ranges::none_of(flowing.args, [](const Arg& arg) { return bool(arg.name); });
  if (scalar_function(callee.name) != nullptr && by_place) {
    std::vector<Datum> all =
        flowing.flowing->kind == DatumKind::kTuple ? *flowing.flowing->items : std::vector{*flowing.flowing};
    for (const Arg& arg : flowing.args) {
      all.push_back(eval(*call.ast, arg.value, scope));
      if (all.back().is_error()) {
        return {};
      }
    }
    const bool several =
        std::ranges::count(all, DatumKind::kTensor, &Datum::kind) > (all[0].kind == DatumKind::kTensor ? 1 : 0);
    flowing.args = {};
    flowing.flowing = all.size() == 1 ? all[0] : make_items(DatumKind::kTuple, std::move(all));
    if (several) {
      return call_builtin(callee.name, flowing, scope);
    }
  }
  const Datum& value = *flowing.flowing;
  const bool is_tuple = value.kind == DatumKind::kTuple && !value.items->empty();
  const Datum& first = is_tuple ? value.items->front() : value;
  const bool of_params = is_of_params(first) && scalar_function(callee.name) != nullptr;
  const bool of_numbers = first.kind != DatumKind::kTensor && is_constant_function(callee.name);
  return of_params || of_numbers ? call_builtin(callee.name, flowing, scope) : call_op(*callee.op, flowing, scope);
}

Datum Evaluator::call_fn(const DeclRef& fn, const Call& call, Scope& scope) {
  const Decl& decl = *fn.decl;
  if (std::find(active_.begin(), active_.end(), &decl) != active_.end()) {
    return recurs(call.span, fmt::format("`{}` calls itself", decl.name.text));
  }
  if (!has_room_for(fn, call.span)) {
    return {};
  }
  const Ast& ast = fn.file->ast;
  Scope env{.file = fn.file};
  const auto bound = bind(signatures_.of(fn), call, scope, env);
  if (!bound) {
    return {};
  }
  for (const BoundArg& arg : *bound) {
    if (arg.value().kind == DatumKind::kTensor) {
      return refuse("XG0205", arg.span, {"`{}` is a function of constants, not of tensors", decl.name.text}, "a tensor",
                    {"make it a block: block {}(...) {{ return ... }}", decl.name.text});
    }
  }
  active_.push_back(&decl);
  called_.insert(&decl);
  Datum value = eval(ast, decl.value, env);
  active_.pop_back();
  return value;
}

}  // namespace xrun::lang
