// The margin of a target logit and its slope (docs/internals/algorithms.md, "Margins"), computed in f64 once per row.
#pragma once

#include "graph/settings/head_def.h"

namespace xrun::ops {

// The largest number of nodes in the expression of a margin that is written in the language. Their values are kept on
// the stack.
inline constexpr size_t kMostMarginNodes = 512;

struct Margin {
  double psi = 0;    // the target logit x after the margin, before the scale
  double slope = 0;  // d psi / d x, as defined by the variant of the form
};

// Returns psi and its slope at x = cos(theta). Without an expression of its own, psi(theta) = cos(phi) - m3 with phi =
// m1·theta + m2, and the variant of the form is one of
//   capped     beyond phi = pi, -2 - cos(phi) smoothly continues cos(phi); the slope is capped near |x| = 1
//   exact      the bare formula; its slope is infinite or NaN at |x| = 1
//   straight   psi as in the variant capped; the slope is 1
//   threshold  beyond phi = pi, psi is x - m2·sin(m2) - m3, as in the original ArcFace
// A form with an expression of its own computes psi and slope from x, clamped to -1 .. 1. If the form is `easy`, there
// is no margin for x <= 0. Sources: ArcFace (Deng et al., CVPR 2019), SphereFace, CosFace.
Margin margin_of(const MarginForm& form, double x);

// Returns the derivative of the loss of a row by psi, given the probability of the target. The loss is log-sum-exp - (1
// - smoothing)·scale·psi - smoothing·(mean of scale·logits).
double target_gradient(const MarginForm& form, double classes, double probability);

}  // namespace xrun::ops
