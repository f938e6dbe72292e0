// The trust ratio of lars and lamb: a factor on the step of a tensor that keeps it in proportion to the norm of the
// weight. Where weights are cut into ranges, the sums of the ranges are added in ascending order, in f64.
// The pieces of one tensor have the same bits on every instruction set (docs/determinism.md, "Scalars").
//   lars  ratio = trust · |w| / (|g + decay·w| + 1e-8)
//   lamb  ratio = |w| / |u|, u = m̂ / (sqrt(v̂) + eps) + decay·w
// The ratio is 1 where a norm is 0. Sources: You, Gitman, Ginsburg, "Large Batch Training of Convolutional Networks",
// 2017; You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes", ICLR 2020.
#pragma once

#include "ops/optimizer.h"

namespace xrun::ops {

// Sums of squares of the weights and of the vector whose norm lars or lamb divides by.
struct TrustSums {
  double weight = 0;
  double step = 0;
};

// The sums of a range before its update; writes nothing. Arguments as of `update`, with the ratio not yet set.
// REQUIRES: form.has_trust_ratio().
TrustSums trust_sums(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, const float* w, const float* g,
                     const float* s0, const float* s1, int64_t n);

// UpdateScalars::ratio of a tensor with these norms of the weight and of the step. NaN where a norm is NaN.
float trust_ratio(const OptimizerForm& form, double weight, double step);

}  // namespace xrun::ops
