// The margin of a target logit and its slope (docs/internals/algorithms.md, "Margins"), in f64: one call per row.
#pragma once

#include "graph/head_def.h"

namespace xrun::ops {

// The largest number of nodes of an own margin: its values are kept on the stack.
inline constexpr size_t kMostMarginNodes = 512;

struct Margin {
  double psi = 0;    // the target logit x after the margin, before the scale
  double slope = 0;  // d psi / d x by the variant of the form
};

// psi(theta) = cos(m1·theta + m2) - m3 with x = cos(theta).
//   capped     beyond phi = pi, -2 - cos(phi) smoothly continues cos(phi); slope capped near |x| = 1
//   exact      the bare formula; its slope is infinite or NaN at |x| = 1
// straight   psi like capped, slope 1
//   threshold  psi beyond phi = pi is x - m2·sin(m2) - m3, as in the original ArcFace
// own: psi and slope are functions of x, which is clamped to -1 .. 1.
// easy: no margin for x <= 0. Sources: ArcFace (Deng et al., CVPR 2019), SphereFace, CosFace.
Margin margin_of(const MarginForm& form, double x);

// Loss of a row is log-sum-exp - (1 - smoothing)·scale·psi - smoothing·(mean of scale·logits); this is its derivative
// by psi, given the target's probability.
double target_gradient(const MarginForm& form, double classes, double probability);

}  // namespace xrun::ops
