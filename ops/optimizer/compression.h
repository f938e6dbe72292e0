// The arithmetic of compressed gradients: each function works element by element. The elements to send are selected by
// ops/reduce/top_k.h. Formulas: Lin et al., "Deep Gradient Compression", ICLR 2018 (docs/internals/algorithms.md,
// "Gradient compression"). No multiply-add is fused, so the bits are equal on every instruction set.
#pragma once

#include <cstdint>
#include <limits>

#include "graph/layouts/compression.h"

namespace xrun::ops {

struct CompressScalars {
  float scale = 1;                                       // factor on the gradient: local clipping by norm
  float limit = std::numeric_limits<float>::infinity();  // bound on each gradient: local clipping by value
  float decay = 0;                                       // the sender's share of the weight decay
  float momentum = 0;
  bool nesterov = false;
};

// Adds the gradients to the velocities, and the velocities to the residuals: a = clipped(scale·g) + decay·w; u =
// momentum·u + a; v += u, or v += a + momentum·u with `nesterov`, where u is the velocity and v the residual. All
// arrays are [n].
void accumulate(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                float* residual, int64_t n);

// Sets the velocity and the residual of the elements in `pairs`, which are sent, to 0 (error feedback and momentum
// factor masking).
void clear_sent(const GradientPair* pairs, int64_t count, float* velocity, float* residual);

// Returns the sum of squares, in f64, of the sums that subtract_pairs computes from the same arguments. It adds the
// squares in the order in which their elements first occur in the pairs. It leaves 0 in the elements of `sums`.
double squares_of_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float* sums);

// Returns the trust ratio of lars from the norms of a weight and of the sum of its pairs: trust · weight / (sent +
// eps), or 1 if a norm is 0 (docs/internals/algorithms.md, "Optimizers").
double trust_ratio(double trust, double weight, double sent);

// Adds up the pairs of all senders for each element and subtracts `rate` times the sum from the weight. Each sum starts
// at 0 and adds the senders in order. Every sender has `count` pairs; those of the next sender begin `stride` pairs
// later. `sums` is working memory with the size of the weight; only elements that occur in pairs are used.
void subtract_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float rate, float* sums,
                    float* weight);

}  // namespace xrun::ops
