// The margin of a target logit and its slope for GPUs, in f64. The formulas are those of `margin_of`
// (ops/head/margin.h), whose comment explains them, with functions that give the same bits everywhere
// (ops/simd/f64_angles.h). The heads of processors still use libm, so results may differ from theirs by a few units of
// the last place of f64.
#pragma once

#include "ops/simd/f64_angles.h"

namespace xrun::ops {

// The numbers of a MarginForm (graph/settings/head_def.h) without an expression of its own. `grad` has the value of the
// MarginGrad.
struct MarginNumbers {
  double m1;
  double m2;
  double m3;
  uint32_t grad;
  bool easy;
};
enum MarginVariant : uint32_t { kCappedSlope, kExactSlope, kStraightSlope, kThresholdSlope };

struct PsiAndSlope {
  double psi;
  double slope;
};

// cos(phi) for phi in 0 .. pi, continued beyond both ends so that it decreases everywhere.
XRUN_INLINE double falling_cosine64(double phi) {
  const double piece = std::ceil(phi / kPi64) - 1;
  const double half = piece * 0.5;
  const double cosine = cos64(phi);
  return std::fma(-2.0, piece, std::floor(half) == half ? cosine : -cosine);
}

XRUN_INLINE PsiAndSlope margin64(const MarginNumbers& form, double x) {
  constexpr double kEdge = 1e-7;
  if (form.easy && x <= 0) {
    return {x, 1};
  }
  if (form.m1 == 1 && form.m2 == 0) {
    return {x - form.m3, 1};
  }
  const double inside = x < -1 + kEdge ? -1 + kEdge : x > 1 - kEdge ? 1 - kEdge : x;
  const double root = std::sqrt(1 - inside * inside);
  if (form.grad == kExactSlope) {
    const double phi = form.m1 * acos64(x) + form.m2;
    return {cos64(phi) - form.m3, form.m1 * sin64(phi) / root};
  }
  const double phi = form.m1 * acos64(inside) + form.m2;
  if (form.grad == kThresholdSlope && phi > kPi64) {
    return {x - form.m2 * sin64(form.m2) - form.m3, 1};
  }
  const double sine = sin64(phi);
  const double slope = form.m1 * (sine < 0 ? -sine : sine) / (root > 1e-3 ? root : 1e-3);
  return {falling_cosine64(phi) - form.m3, form.grad == kStraightSlope ? 1 : slope};
}

}  // namespace xrun::ops
