// The arithmetic of compressed gradients, element by element; for the selection see ops/top_k.h. Formulas: Lin et al.,
// "Deep Gradient Compression", ICLR 2018 (docs/internals/algorithms.md, "Gradient compression"). Nothing is fused, so
// the bits are equal on every instruction set.
#pragma once

#include <cstdint>
#include <limits>

#include "graph/compression.h"

namespace xrun::ops {

struct CompressScalars {
  float scale = 1;                                       // factor for the gradient: local clipping by norm
  float limit = std::numeric_limits<float>::infinity();  // on its magnitude: local clipping by value
  float decay = 0;                                       // the sender's share of the weight decay
  float momentum = 0;
};

// Adds gradients to velocities, and these to residuals: a = clipped(scale·g) + decay·w; u = momentum·u + a; v += u.
// All arrays are [n].
void accumulate(const CompressScalars& scalars, const float* gradient, const float* weight, float* velocity,
                float* residual, int64_t n);

// Zeroes velocity and residual of the elements that are sent: error feedback and momentum factor masking.
void clear_sent(const GradientPair* pairs, int64_t count, float* velocity, float* residual);

// Subtracts rate times the sum of all senders' pairs from the weights. A sum begins with 0 and adds the senders in
// order; their pairs begin `stride` pairs apart. `sums` is as large as the weight; only elements with pairs are used.
void subtract_pairs(const GradientPair* pairs, int64_t count, int64_t stride, int senders, float rate, float* sums,
                    float* weight);

}  // namespace xrun::ops
