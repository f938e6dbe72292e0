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
};

// Adds the gradients to the velocities, and the velocities to the residuals: a = clipped(scale·g) + decay·w; u =
// momentum·u + a; v += u, with u the velocity and v the residual. All arrays are [n].
void accumulate(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                float* residual, int64_t n);

// Sets the velocity and the residual of the elements in `pairs`, which are sent, to 0 (error feedback and momentum
// factor masking).
void clear_sent(const GradientPair* pairs, int64_t count, float* velocity, float* residual);

// Adds up the pairs of all senders for each element and subtracts `rate` times the sum from the weight. Each sum starts
// at 0 and adds the senders in order. Every sender has `count` pairs; those of the next sender begin `stride` pairs
// later. `sums` is working memory with the size of the weight; only elements that occur in pairs are used.
void subtract_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float rate, float* sums,
                    float* weight);

}  // namespace xrun::ops
