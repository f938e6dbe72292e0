// A margin that is an expression of its own (MarginForm::own), for GPUs: the nodes of its ScalarExpr
// (graph/types/scalar_expr.h) as data, and their evaluation in f64. The functions are those of ops/simd/f64_math.h and
// ops/simd/f64_angles.h, so results may differ from `evaluate`, which uses libm, by a few units of the last place.
// Tests: tests/ops/gpu/f64_math_test.cpp
#pragma once

#include "ops/simd/f64_angles.h"

namespace xrun::ops {

// The operations in the order of ScalarOp, which this header does not include because nvcc reads it.
enum class MarginOp : uint32_t {
  kInput,
  kConstant,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMin,
  kMax,
  kLess,
  kLessEqual,
  kEqual,
  kSelect,
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kSign,
  kFloor,
  kErf,
  kSin,
  kCos,
  kAcos,
  kTanh,
  kSigmoid,
  kBf16,
  kF16,
};

struct MarginNode {
  double value;     // the number of a constant
  int32_t args[3];  // earlier nodes; -1: none
  uint32_t op;      // MarginOp
};

// Rounds to f16: eleven bits, or multiples of 2^-24 below 2^-14; infinite from 65520 on.
XRUN_INLINE double rounded_to_f16(double value) {
  const auto x = static_cast<double>(static_cast<float>(value));
  const double size = x < 0 ? -x : x;
  if (!(size < 65520)) {
    return x != x ? x : x < 0 ? -static_cast<double>(INFINITY) : static_cast<double>(INFINITY);
  }
  // Adding 1.5 · 2^52 steps of the format rounds to a whole number of steps.
  const uint64_t exponent = __builtin_bit_cast(uint64_t, size < 0x1p-14 ? 0x1p-14 : size) >> 52;
  const double magic = 1.5 * __builtin_bit_cast(double, (exponent + 42) << 52);
  return (x + magic) - magic;
}

XRUN_INLINE double log_or_limit64(double x) {
  if (x > 0 && x < static_cast<double>(INFINITY)) {
    return log64(x);
  }
  return x == 0 ? -static_cast<double>(INFINITY) : x < 0 ? static_cast<double>(NAN) : x;
}

// Computes one operation.
XRUN_INLINE double apply_margin_op(MarginOp op, double a, double b, double c) {
  switch (op) {
    case MarginOp::kAdd:
      return a + b;
    case MarginOp::kSub:
      return a - b;
    case MarginOp::kMul:
      return a * b;
    case MarginOp::kDiv:
      return a / b;
    case MarginOp::kPow:
      return power64(a, b);
    case MarginOp::kMin:
      return a != a || a < b ? a : b;
    case MarginOp::kMax:
      return a != a || a > b ? a : b;
    case MarginOp::kLess:
      return a < b ? 1 : 0;
    case MarginOp::kLessEqual:
      return a <= b ? 1 : 0;
    case MarginOp::kEqual:
      return a == b ? 1 : 0;
    case MarginOp::kSelect:
      return a != 0 ? b : c;
    case MarginOp::kNeg:
      return -a;
    case MarginOp::kExp:
      return exp64(a);
    case MarginOp::kLog:
      return log_or_limit64(a);
    case MarginOp::kSqrt:
      return std::sqrt(a);
    case MarginOp::kAbs:
      return a < 0 ? -a : a;
    case MarginOp::kSign:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case MarginOp::kFloor:
      return std::floor(a);
    case MarginOp::kErf:
      return erf64(a);
    case MarginOp::kSin:
      return sin64(a);
    case MarginOp::kCos:
      return cos64(a);
    case MarginOp::kAcos:
      return acos64(a);
    case MarginOp::kTanh:
      return tanh64(a);
    case MarginOp::kSigmoid:
      return 1 / (1 + exp64(-a));
    case MarginOp::kBf16:
      return static_cast<double>(to_float(to_bf16(static_cast<float>(a))));
    case MarginOp::kF16:
      return rounded_to_f16(a);
    default:
      return a;
  }
}

}  // namespace xrun::ops
