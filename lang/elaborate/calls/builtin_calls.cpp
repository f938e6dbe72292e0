// Calls of the language's functions of numbers: `floor(x)`, `max(a, b)`.
#include <algorithm>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {

// Evaluates the arguments of a function of numbers; all of them are positional.
std::optional<std::vector<Datum>> Evaluator::plain_args(const std::string& name, const Call& call, Scope& scope) {
  std::vector<Datum> args;
  if (call.flowing && call.flowing->kind == DatumKind::kTuple) {
    args = *call.flowing->items;
  } else if (call.flowing) {
    args.push_back(*call.flowing);
  }
  for (const Arg& arg : call.args) {
    if (arg.name) {
      refuse("XG0203", arg.name.span, {"`{}` has no argument named `{}`", name, arg.name.text}, "unknown argument",
             {"write the value alone: functions of numbers take theirs by place"});
      return std::nullopt;
    }
    args.push_back(eval(*call.ast, arg.value, scope));
    if (args.back().is_error()) {
      return std::nullopt;
    }
  }
  return args;
}

Datum Evaluator::constant_call(const std::string& name, std::span<const Datum> args, Span at) {
  Problem problem;
  Datum value = constant_function(name, args, problem);
  return value.is_error() ? refuse(problem.code, at, std::move(problem.message), "", {problem.fix}) : value;
}

Datum Evaluator::call_builtin(const std::string& name, const Call& call, Scope& scope) {
  const auto args = plain_args(name, call, scope);
  if (!args) {
    return {};
  }
  const bool of_tensors = std::ranges::any_of(*args, &Datum::has_elements);
  if (of_tensors && scalar_function(name) != nullptr) {
    return map_of(*args, name, call.span, [&](const std::vector<Datum>& elements) {
      const Call inner{.ast = call.ast,
                       .flowing = make_items(DatumKind::kTuple, elements),
                       .span = call.span,
                       .name_span = call.name_span};
      return scalar_call({.kind = Callee::kBuiltin, .name = name}, inner, scope);
    });
  }
  return constant_call(name, *args, call.span);
}

}  // namespace xrun::lang
