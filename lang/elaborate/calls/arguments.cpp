// The parts of a call that bind.cpp uses: the value of one argument, defaults, and the fixes for unknown arguments.
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/elaborate/evaluator.h"
#include "lang/elaborate/facts.h"
#include "lang/text/foreign_names.h"
#include "lang/text/lexer.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

// The truth value that a word means in another language, such as True; nullopt for any other word.
std::optional<bool> other_word(std::string_view word) {
  const auto is = [&](std::initializer_list<std::string_view> words) { return std::ranges::count(words, word) > 0; };
  return is({"yes", "on", "True", "TRUE"})     ? std::optional(true)
         : is({"no", "off", "False", "FALSE"}) ? std::optional(false)
                                               : std::nullopt;
}

}  // namespace

// Records, as text, the arguments that a call of an operator, reader, stage or optimizer leaves out. The values of
// other parameters are put into a default: `pad: int = k // 2` of conv(64, 3) gives `pad=3 // 2`.
void Evaluator::note_defaults(const Signature& signature, const Call& call, std::span<const BoundArg> bound) const {
  const bool is_shown = signature.owned != nullptr || signature.is_optimizer;
  if (options_.facts == nullptr || !is_shown || !call.name_span.valid()) {
    return;
  }
  const auto text_of_param = [&](std::string_view name) {
    const auto at = std::ranges::find_if(bound, [&](const BoundArg& arg) { return arg.param->name.text == name; });
    if (at == bound.end()) {
      return std::string(name);
    }
    std::string_view text = sources_.text(at->given                  ? at->span
                                          : at->param->value.valid() ? (*signature.ast)[at->param->value].span
                                                                     : Span());
    if (const size_t equals = text.find('='); at->given && text.starts_with(name) && equals != std::string_view::npos) {
      text = text.substr(equals + 1);
    }
    const bool is_one = std::ranges::all_of(text, [](char c) { return is_name_char(c); });
    return is_one ? std::string(text) : fmt::format("({})", text);
  };
  std::string all;
  for (const BoundArg& arg : bound) {
    if (arg.given || arg.param->name.text == call.read_apart) {
      continue;
    }
    const Expr& expr = (*signature.ast)[arg.param->value];
    // The default of an optimizer may contain names that are declared only in its own file, so its value is shown
    // instead of its text.
    const bool is_plain = expr.kind == ExprKind::kNumber || expr.kind == ExprKind::kBool;
    const bool is_value = signature.is_optimizer && !is_plain;
    const std::string_view text = is_value ? std::string_view() : sources_.text(expr.span);
    std::string value = is_value ? to_text(arg.value()) : std::string();
    for (size_t at = 0; at < text.size();) {
      size_t end = at + 1;
      const bool is_word = is_name_start(text[at]) && (at == 0 || !is_name_char(text[at - 1]));
      while (is_word && end < text.size() && is_name_char(text[end])) {
        ++end;
      }
      const std::string_view piece = text.substr(at, end - at);
      value += is_word && expr.kind != ExprKind::kName ? text_of_param(piece) : std::string(piece);
      at = end;
    }
    all += fmt::format("{}{}={}", all.empty() ? "" : ", ", arg.param->name.text, value);
  }
  if (all.empty()) {
    return;
  }
  options_.facts->add_defaults(call.name_span.file, call.name_span.end, std::move(all));
}

// The fix for an argument with an unknown name: our name for it in place of another framework's, or the nearest name.
Fix Evaluator::known_argument(const Signature& signature, const Call& call, const Name& name) {
  if (const auto ours = signature.op != nullptr ? our_argument(*signature.op, name.text) : std::nullopt) {
    return in_our_words(*signature.op, call,
                        ours->empty() ? fmt::format("`{}` is not needed here", name.text)
                                      : fmt::format("`{}` is `{}` here", name.text, *ours));
  }
  const auto names = names_of(signature.params, [](const Param& param) { return param.name.text; });
  if (std::optional<Fix> fix = foreign_argument(signature, call, name)) {
    return std::move(*fix);
  }
  if (const std::string near = nearest(name.text, names); !near.empty()) {
    return replacement("a similar argument exists", name.span, near);
  }
  return our_name(NameKind::kArgument, name.text, {}, name.span,
                  {names.empty() ? "leave it out: it takes none"
                                 : fmt::format("leave it out, or name one of {}", fmt::join(names, ", "))});
}

std::optional<Datum> Evaluator::default_of(const Signature& signature, const Param& param, const Call& call,
                                           Scope& env) {
  if (std::find(defaults_.begin(), defaults_.end(), &param) != defaults_.end()) {
    recurs(call.span, fmt::format("the default of `{}` of `{}` depends on itself", param.name.text, signature.name));
    return std::nullopt;
  }
  defaults_.push_back(&param);
  std::optional<Datum> value = argument(signature, param, *signature.ast, param.value, env);
  defaults_.pop_back();
  return value;
}

// Evaluates an argument. A bare name may be a symbol that only the parameter defines, such as `capped`.
std::optional<Datum> Evaluator::argument(const Signature& signature, const Param& param, const Ast& ast, ExprId id,
                                         Scope& scope) {
  const Expr& expr = ast[id];
  const bool by_type = is_symbol_type(param.type.name.text);
  // `margin_grad = capped`: a parameter whose default is a symbol also accepts symbols as arguments.
  const bool by_default =
      !param.type.span.valid() && param.value.valid() && (*signature.ast)[param.value].kind == ExprKind::kName;
  if (expr.kind == ExprKind::kName && by_type) {
    Datum symbol = make_symbol(std::string(expr.name.text));
    symbol.span = expr.span;
    return symbol;
  }
  if (expr.kind == ExprKind::kCall && param.type.name.text == "init") {
    // The text of the call, with its arguments as numbers: "normal(0.02)".
    std::string text(sources_.text(ast[expr.lhs].span));
    for (const Arg& arg : ast[expr.args]) {
      const Datum value = eval(ast, arg.value, scope);
      if (value.is_error()) {
        return std::nullopt;
      }
      text += text.find('(') == std::string::npos ? "(" : ", ";
      text += value.plain_number() ? to_text(AttrValue(value.as_double())) : to_text(value);
    }
    Datum symbol = make_symbol(text.find('(') == std::string::npos ? text + "()" : text + ")");
    symbol.span = expr.span;
    return symbol;
  }
  if (param.type.name.text == "pointwise") {
    return margin_function(signature, param, ast, id, scope);
  }
  const bool unknown = expr.kind == ExprKind::kName && scope.find(expr.name.text) == nullptr &&
                       (scope.file == nullptr || !scope.file->find(expr.name.text));
  if (const auto flag = unknown ? other_word(expr.name.text) : std::nullopt; flag && param.type.name.text == "bool") {
    refuse("XG0205", expr.span,
           {"`{}` of `{}` is true or false, not `{}`", param.name.text, signature.name, expr.name.text}, "",
           replacement("write `true` or `false`", expr.span, *flag ? "true" : "false", true));
    return std::nullopt;
  }
  // In folder(pictures) and csv(data/a.csv) the argument is a path without its quotes.
  const bool takes_path = param.type.name.text == "str" || param.name.text == "paths";
  if (takes_path && is_unquoted(ast, id, scope)) {
    refuse("XG0205", expr.span, {"`{}` of `{}` is a string", param.name.text, signature.name}, "no quotes",
           replacement("put it in double quotes", expr.span, {"\"{}\"", sources_.text(expr.span)}, true));
    return std::nullopt;
  }
  if (unknown && by_default) {
    Datum symbol = make_symbol(std::string(expr.name.text));
    symbol.span = expr.span;
    return symbol;
  }
  return eval(ast, id, scope);
}

void Evaluator::bind_param(const Param& param, Datum value, Scope& env) {
  if (env.file != nullptr) {  // operators have no file
    note(param.name.span, value);
  }
  env.locals[param.name.text] = {.value = std::move(value), .span = param.name.span, .used = true};
}

}  // namespace xrun::lang
