// Arithmetic and functions inside a `pointwise` body append operations to the expression that is being built.
// Operations on numbers alone are computed at once; a number becomes a constant when it meets a value of an element.
// Tests: tests/lang/elaborate/bodies/pointwise_test.cpp
#include <algorithm>
#include <fmt/format.h>

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {
namespace {

constexpr int kMostNodes = 4 * static_cast<int>(kMostScalarOps);  // limit while an expression is being built

// The operation for a sign of the language, with its operands in order. `>` is `<` with exchanged operands.
struct SignOp {
  Op sign;
  ScalarOp op;
  bool is_swapped = false;
};

constexpr SignOp kSigns[] = {
    {Op::kAdd, ScalarOp::kAdd},       {Op::kSub, ScalarOp::kSub},      {Op::kMul, ScalarOp::kMul},
    {Op::kDiv, ScalarOp::kDiv},       {Op::kPow, ScalarOp::kPow},      {Op::kLt, ScalarOp::kLess},
    {Op::kGt, ScalarOp::kLess, true}, {Op::kLe, ScalarOp::kLessEqual}, {Op::kGe, ScalarOp::kLessEqual, true},
    {Op::kEq, ScalarOp::kEqual},
};

bool is_comparison(Op op) {
  return op == Op::kLt || op == Op::kGt || op == Op::kLe || op == Op::kGe || op == Op::kEq || op == Op::kNe;
}

ScalarId append(ScalarExpr& expr, Op op, ScalarId a, ScalarId b) {
  const auto one = [&] { return expr.constant(1); };
  switch (op) {
    case Op::kNe:
      return expr.make(ScalarOp::kSub, one(), expr.make(ScalarOp::kEqual, a, b));
    case Op::kAnd:
      return expr.make(ScalarOp::kMul, a, b);
    case Op::kOr:
      return expr.make(ScalarOp::kMax, a, b);
    case Op::kFloorDiv:
      return expr.make(ScalarOp::kFloor, expr.make(ScalarOp::kDiv, a, b));
    case Op::kMod:
      return expr.make(ScalarOp::kSub, a, expr.make(ScalarOp::kMul, append(expr, Op::kFloorDiv, a, b), b));
    default: {
      const auto known = std::ranges::find(kSigns, op, &SignOp::sign);
      return known->is_swapped ? expr.make(known->op, b, a) : expr.make(known->op, a, b);
    }
  }
}

}  // namespace

Datum Evaluator::make_scalar(ScalarId id, bool is_condition) {
  if (scalars_->nodes().size() > kMostNodes) {
    exhausted_ = true;
    const Span at = active_.empty() ? recorded_.op_call : active_.back()->name.span;
    return refuse("XG0216", at, {"this function has more than {} operations", kMostNodes}, "",
                  {"cut it into several `pointwise` functions, called one after the other"});
  }
  if (const double* number = scalars_->constant_of(id)) {
    return is_condition ? make_bool(*number != 0) : make_real(*number);
  }
  Datum made{.kind = DatumKind::kScalar, .flag = is_condition, .scalar = id};
  return made;
}

// Converts a value to an operand of an operation. Reports a value that is neither a number nor a number of each
// element.
std::optional<ScalarId> Evaluator::scalar_of(const Datum& value, Span at) {
  if (value.is_error()) {
    return std::nullopt;
  }
  if (value.kind == DatumKind::kScalar) {
    return value.scalar;
  }
  if (value.kind == DatumKind::kBool) {
    return scalars_->constant(value.flag ? 1 : 0);
  }
  if (value.plain_number()) {
    return scalars_->constant(value.as_double());
  }
  const bool is_assignment = means_ != nullptr;
  return refuse("XG0304", value.span.valid() ? value.span : at,
                {"{} computes with plain numbers, not with {}",
                 is_assignment ? "the assignment of a state" : "a `pointwise`", kind_text(value)},
                "",
                {is_assignment ? "write the state itself, a number, or a mean of the batch: batch_mean(x)"
                               : "write a number, or a parameter of the function"});
}

Datum Evaluator::scalar_binary(Op op, const Datum& a, const Datum& b, Span at) {
  if (a.is_error() || b.is_error()) {
    return {};
  }
  const bool is_logic = op == Op::kAnd || op == Op::kOr;
  for (const Datum* side : {&a, &b}) {
    if (is_logic && side->kind != DatumKind::kBool && !side->flag) {
      return refuse("XG0304", side->span, {"a condition is true or false, not {}", kind_text(*side)}, "",
                    {"compare it with something: x > 0, x == 1"});
    }
  }
  const auto left = scalar_of(a, at);
  const auto right = scalar_of(b, at);
  return left && right ? make_scalar(append(*scalars_, op, *left, *right), is_logic || is_comparison(op)) : Datum();
}

Datum Evaluator::scalar_choice(const Datum& condition, const Datum& yes, const Datum& no, Span at) {
  if (!condition.flag) {
    return refuse("XG0304", condition.span, {"a condition is true or false, not {}", kind_text(condition)}, "",
                  {"compare it with something: x > 0, x == 1"});
  }
  const auto a = scalar_of(yes, at);
  const auto b = scalar_of(no, at);
  const auto is_bool = [](const Datum& value) { return value.flag || value.kind == DatumKind::kBool; };
  return a && b ? make_scalar(scalars_->make(ScalarOp::kSelect, condition.scalar, *a, *b), is_bool(yes) && is_bool(no))
                : Datum();
}

Datum Evaluator::scalar_call(const Callee& callee, const Call& call, Scope& scope) {
  const ScalarOp* const function = scalar_function(callee.name);
  if (function == nullptr && callee.kind == Callee::kOp) {
    return scalar_op(*callee.op, call, scope);
  }
  if (norms_ != nullptr && callee.kind == Callee::kBuiltin && callee.name == "norm") {
    return norm_call(call, scope);
  }
  if (means_ != nullptr && callee.kind == Callee::kBuiltin && callee.name == "batch_mean") {
    return mean_call(call, scope);
  }
  const auto args = plain_args(callee.name, call, scope);
  if (!args) {
    return {};
  }
  if (std::ranges::none_of(*args, [](const Datum& arg) { return arg.kind == DatumKind::kScalar; }) &&
      is_constant_function(callee.name)) {
    return constant_call(callee.name, *args, call.span);
  }
  std::vector<ScalarId> ids;
  for (const Datum& arg : *args) {
    const auto id = scalar_of(arg, call.span);
    if (!id) {
      return {};
    }
    ids.push_back(*id);
  }
  const bool takes_many = callee.name == "min" || callee.name == "max";
  const size_t takes = function != nullptr ? static_cast<size_t>(arity_of(*function)) : 1;
  if (takes_many ? ids.empty() : ids.size() != takes) {
    return refuse("XG0204", call.span,
                  {"`{}` takes {}, but gets {}", callee.name,
                   takes_many   ? "one number or more"
                   : takes == 1 ? "one number"
                                : "three numbers",
                   ids.size()},
                  "", {takes == 3 ? "write a condition, and the numbers for true and false" : "write what it takes"});
  }
  if (takes_many) {
    ScalarId best = ids[0];
    for (size_t i = 1; i < ids.size(); ++i) {
      best = scalars_->make(*function, best, ids[i]);
    }
    return make_scalar(best);
  }
  if (function != nullptr) {
    return make_scalar(
        scalars_->make(*function, ids[0], takes > 1 ? ids[1] : ScalarId(), takes > 2 ? ids[2] : ScalarId()));
  }
  if (callee.name == "ceil") {
    const ScalarId below = scalars_->make(ScalarOp::kFloor, scalars_->make(ScalarOp::kNeg, ids[0]));
    return make_scalar(scalars_->make(ScalarOp::kNeg, below));
  }
  if (callee.name == "round") {
    return make_scalar(
        scalars_->make(ScalarOp::kFloor, scalars_->make(ScalarOp::kAdd, ids[0], scalars_->constant(0.5))));
  }
  return refuse("XG0220", call.name_span, {"`{}` is not a function of numbers", callee.name}, "",
                {"leave it out of the `pointwise`"});
}

// Calls an element-wise operator in a `pointwise` body, where its tensors are numbers.
Datum Evaluator::scalar_op(const OpDef& op, const Call& call, Scope& scope) {
  if (op.expr == nullptr) {
    return refuse("XG0220", call.name_span, {"`{}` is not element-wise, so a `pointwise` cannot call it", op.name},
                  "works on whole tensors", {"call it in a block, before or after the function"});
  }
  const Signature& signature = signatures_.of(op);
  Scope env;
  const auto bound = bind(signature, call, scope, env);
  const auto attrs = bound ? attributes(signature, *bound) : std::nullopt;
  if (!attrs) {
    return {};
  }
  std::vector<ScalarId> ids;
  for (const BoundArg& arg : *bound) {
    if (takes_tensor(*arg.param)) {
      const auto id = scalar_of(arg.value(), arg.span);
      if (!id) {
        return {};
      }
      ids.push_back(*id);
    }
  }
  const auto expr = parse_scalar_expr(op.expr(*attrs));
  return expr.ok() ? make_scalar(scalars_->insert(*expr, ids)[0])
                   : refuse(expr.error().code.c_str(), call.span, expr.error().message, "", {expr.error().help});
}

}  // namespace xrun::lang
