// Measures how much of the softmax over all classes belongs to the active classes of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/head/head.h"

namespace xrun::ops {

// Statistics of one row on one shard: max of z and sum of exp(z - max), over the active classes of the shard and over
// all its classes.
struct RowMass {
  float active_max = 0;
  float active_sum = 0;
  float all_max = 0;
  float all_sum = 0;
};

// Returns the sum of the probabilities of the active classes in the softmax over all classes, averaged over rows.
// `shards` has the statistics of all rows, for each shard.
double active_share(std::span<const std::vector<RowMass>> shards);

// Immutable; calls on different buffers may run at once.
class HeadMass {
 public:
  // `shape` is the shape of a pass over the active classes.
  HeadMass(const HeadShape& shape, Isa isa);

  // Runs two forward passes, one over the active classes of `rows` and one over all classes. Writes a RowMass for each
  // row to `out`. `scratch` has head_mass_scratch_bytes of the shape.
  void measure(const HeadRows& rows, const HeadWeights& weights, RowMass* out, std::byte* scratch,
               Workers& workers) const;

 private:
  HeadPasses active_;
  HeadPasses all_;
};

}  // namespace xrun::ops
