// Matches the arguments of a call with the parameters of a signature:
//   1. Each argument gets a parameter, by name or by position. The value before `->` comes first.
//   2. The arguments are evaluated in the order of the text, which becomes the order of the nodes.
//   3. Parameters without an argument get their defaults, which are expressions of the parameters before them.
//   4. Each value is checked against the type of its parameter (accept.cpp) and becomes a local of the callee's scope.
// Tests: tests/lang/check_golden_test.cpp, tests/lang/nothing_ignored_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {

// An argument of a call that has not been evaluated yet.
struct GivenArgument {
  size_t param = 0;
  std::optional<Datum> value;  // the value before `->`
  ExprId expr;
  Span span;
};

namespace {

// Reports all missing arguments in one message.
Diagnostic missing_arguments(const Signature& signature, Span call, std::span<const BoundArg> bound) {
  std::vector<std::string> names;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i].given && !signature.params[i].value.valid()) {
      names.emplace_back(signature.params[i].name.text);
    }
  }
  const std::string last = names.back();
  const std::string values = fmt::format("{}=...", fmt::join(names, "=..., "));
  names.pop_back();
  const std::string all =
      names.empty() ? fmt::format("`{}`", last) : fmt::format("`{}` and `{}`", fmt::join(names, "`, `"), last);
  return with_signature(fault("XG0204", call, {"`{}` needs {}", signature.name, all}, "missing",
                              {"give {}: {}({})", names.empty() ? "it" : "them", signature.name, values}),
                        signature);
}

Diagnostic too_many_arguments(const Signature& signature, Span at) {
  const size_t count = signature.params.size();
  return with_signature(
      fault("XG0204", at, {"`{}` takes {} argument{}, but gets more", signature.name, count, count == 1 ? "" : "s"},
            "one too many", {"leave it out"}),
      signature);
}

}  // namespace

std::optional<std::vector<BoundArg>> Evaluator::bind(const Signature& signature, const Call& call, Scope& scope,
                                                     Scope& env, Span op_call) {
  if (call.flowing && call.flowing->is_error()) {
    return std::nullopt;
  }
  std::vector<GivenArgument> given;
  const bool all_placed = place_arguments(signature, call, given);
  std::vector<BoundArg> bound(signature.params.size());
  if (!eval_arguments(signature, call, given, scope, bound, all_placed)) {
    return std::nullopt;
  }
  // In linear(768, 10) the second number is at the position of `bias`, which is a flag. The first number is then the
  // size of the input and not the number of outputs, as in other frameworks.
  const auto is_number_for_flag = [](const BoundArg& arg) {
    return arg.given && arg.param->type.name.text == "bool" && arg.value().number();
  };
  if (signature.op != nullptr && std::ranges::any_of(bound, is_number_for_flag) &&
      begins_with_size(*signature.op, call, bound)) {
    explain_size(*signature.op, call, bound, true);
    return std::nullopt;
  }
  if (!bind_params(signature, call, bound, env, op_call)) {
    return std::nullopt;
  }
  note_defaults(signature, call, bound);
  return bound;
}

// Gives each argument its parameter. Returns false after reporting an argument that has no parameter; it is then not in
// `given`.
bool Evaluator::place_arguments(const Signature& signature, const Call& call, std::vector<GivenArgument>& given) {
  const auto params = signature.params;
  bool good = true;
  size_t place = 0;
  const auto positional = [&](GivenArgument item) {
    if (signature.variadic && !params.empty()) {
      item.param = 0;
    } else if (place < params.size()) {
      item.param = place++;
    } else {
      if (good) {
        report(too_many_arguments(signature, item.span));
        good = false;
      }
      return;
    }
    given.push_back(std::move(item));
  };
  if (call.flowing && call.flowing->kind == DatumKind::kTuple) {
    for (const Datum& item : *call.flowing->items) {
      positional({.value = item, .span = call.name_span});
    }
  } else if (call.flowing) {
    positional({.value = *call.flowing, .span = call.name_span});
  }
  for (const Arg& arg : call.args) {
    if (!arg.name) {
      positional({.expr = arg.value, .span = arg.span});
      continue;
    }
    const auto found =
        std::find_if(params.begin(), params.end(), [&](const Param& p) { return p.name.text == arg.name.text; });
    if (found != params.end()) {
      given.push_back({.param = static_cast<size_t>(found - params.begin()), .expr = arg.value, .span = arg.span});
    } else if (good) {  // one report per call is enough
      report(with_signature(
          fault("XG0203", arg.name.span, {"`{}` has no argument named `{}`", signature.name, arg.name.text},
                "unknown argument", known_argument(signature, call, arg.name)),
          signature));
      good = false;
    }
  }
  return good;
}

// Evaluates the arguments in the order of the text, which becomes the order of the nodes. `good` is false if a fault of
// the call was reported before. Returns false if a fault was reported before or now.
bool Evaluator::eval_arguments(const Signature& signature, const Call& call, std::span<GivenArgument> given,
                               Scope& scope, std::vector<BoundArg>& bound, bool good) {
  for (GivenArgument& item : given) {
    const Param& param = signature.params[item.param];
    BoundArg& slot = bound[item.param];
    if (slot.given && !(signature.variadic && item.param == 0)) {
      if (std::exchange(good, false)) {
        report(
            with_signature(fault("XG0204", item.span, {"`{}` of `{}` is given twice", param.name.text, signature.name},
                                 "again", {"leave one of the two out"}),
                           signature)
                .also(slot.span, "also given here"));
      }
      continue;
    }
    std::optional<Datum> value = std::move(item.value);
    if (!value) {
      value = argument(signature, param, *call.ast, item.expr, scope);
    }
    slot.param = &param;
    slot.given = true;
    slot.span = item.span;
    good = good && value && !value->is_error();
    slot.values.push_back(value ? std::move(*value) : Datum());
  }
  return good;
}

// Fills in the defaults, checks each value against the type of its parameter, and makes the parameters locals of `env`.
// Returns false after a fault.
bool Evaluator::bind_params(const Signature& signature, const Call& call, std::vector<BoundArg>& bound, Scope& env,
                            Span op_call) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const Param& param = signature.params[i];
    BoundArg& slot = bound[i];
    slot.param = &param;
    if (!slot.given) {
      if (!param.value.valid()) {
        report(missing_arguments(signature, call.span, bound));
        return false;
      }
      slot.span = call.span;
      std::optional<Datum> value = default_of(signature, param, call, env);
      if (!value || value->is_error()) {
        return false;
      }
      slot.values.push_back(std::move(*value));
    }
    for (Datum& value : slot.values) {
      recorded_.op_call = op_call;
      if (!accept(signature, param, value, slot.given && value.span.valid() ? value.span : slot.span, env)) {
        return false;
      }
    }
    if (const Local* known = env.find(param.name.text); known != nullptr && !equal(known->value, slot.values.front())) {
      report(
          with_signature(fault("XG0302", slot.span,
                               {"`{}` of `{}` is {}, but the tensor before it has {} = {}", param.name.text,
                                signature.name, to_text(slot.values.front()), param.name.text, to_text(known->value)},
                               "", {"write {}, or leave the parameter out of the block", to_text(known->value)}),
                         signature));
      return false;
    }
    bind_param(param, slot.values.front(), env);
  }
  return true;
}

}  // namespace xrun::lang
