// The operations of scalar expressions on lanes. The interpreter computes them; the kernel compiler writes them as
// instructions (lane_math.h). Comparisons with NaN are false; all other operations give NaN if an operand is NaN.
#pragma once

#include "graph/types/scalar_expr.h"
#include "ops/simd/lane_math.h"
#include "ops/simd/lane_trig.h"

namespace xrun::ops {

// Computes one operation; operands that it does not have are ignored. REQUIRES: kOp is neither kInput nor kConstant.
template <ScalarOp kOp, class F>
XRUN_INLINE F compute(F a, F b, F c) {
  const F zero = fill_like(a, 0);
  const F one = fill_like(a, 1.0F);
  switch (kOp) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kPow:
      return power_lanes(a, b);
    case ScalarOp::kMin:
      return choose<_CMP_UNORD_Q>(a, a, a, choose<_CMP_LT_OQ>(a, b, a, b));
    case ScalarOp::kMax:
      return choose<_CMP_UNORD_Q>(a, a, a, choose<_CMP_GT_OQ>(a, b, a, b));
    case ScalarOp::kLess:
      return choose<_CMP_LT_OQ>(a, b, one, zero);
    case ScalarOp::kLessEqual:
      return choose<_CMP_LE_OQ>(a, b, one, zero);
    case ScalarOp::kEqual:
      return choose<_CMP_EQ_OQ>(a, b, one, zero);
    case ScalarOp::kSelect:
      return choose<_CMP_NEQ_UQ>(a, zero, b, c);
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kExp:
      return exp_lanes(a);
    case ScalarOp::kLog:
      return log_lanes(a);
    case ScalarOp::kSqrt:
      return square_root(a);
    case ScalarOp::kAbs:
      return choose<_CMP_LE_OQ>(a, zero, zero - a, a);  // 0 for -0
    case ScalarOp::kSign:
      return choose<_CMP_LT_OQ>(a, zero, -one, choose<_CMP_GT_OQ>(a, zero, one, a));
    case ScalarOp::kFloor:
      return floor_lanes(a);
    case ScalarOp::kErf:
      return erf_lanes(a);
    case ScalarOp::kSin:
      return sin_lanes(a);
    case ScalarOp::kCos:
      return cos_lanes(a);
    case ScalarOp::kAcos:
      return acos_lanes(a);
    case ScalarOp::kTanh:
      return tanh_lanes(a);
    case ScalarOp::kSigmoid:
      return sigmoid_lanes(a);
    case ScalarOp::kBf16:
      return rounded_to_bf16(a);
    case ScalarOp::kF16:
      return rounded_to_f16(a);
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
      break;
  }
  return a;
}

// Calls f(std::integral_constant<ScalarOp, op>()), so that f can use an operation that is known at run time as a
// template argument.
template <class Function, size_t... kIndex>
auto with_scalar_op(ScalarOp op, const Function& f, std::index_sequence<kIndex...>) {
  using Returned = decltype(f(std::integral_constant<ScalarOp, ScalarOp::kAdd>()));
  using Call = Returned (*)(const Function&);
  static constexpr Call kCalls[] = {+[](const Function& g) -> Returned {
    return g(std::integral_constant<ScalarOp, static_cast<ScalarOp>(kIndex)>());
  }...};
  return kCalls[static_cast<size_t>(op)](f);
}

inline constexpr size_t kScalarOps = static_cast<size_t>(ScalarOp::kF16) + 1;

template <class Function>
auto with_scalar_op(ScalarOp op, const Function& f) {
  return with_scalar_op(op, f, std::make_index_sequence<kScalarOps>());
}

}  // namespace xrun::ops
