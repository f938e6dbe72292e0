// Measures the share of the softmax over all classes that the active classes of a step have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/head.h"

namespace xrun::ops {

// One row on one shard: max and sum of exp(z - max), over the shard's active classes and over all its classes.
struct RowMass {
  float active_max = 0;
  float active_sum = 0;
  float all_max = 0;
  float all_sum = 0;
};

// The active classes' share of the softmax over all classes, averaged over rows. `shards`: all rows of each shard.
double active_share(std::span<const std::vector<RowMass>> shards);

// Immutable; calls on different buffers may run at once.
class HeadMass {
 public:
  // `shape` is that of a pass over the active classes.
  HeadMass(const HeadShape& shape, Isa isa);

  // Runs two forward passes, one over the active classes of `rows` and one over all. `out`: a RowMass for each row;
  // `scratch`: head_mass_scratch_bytes of the shape.
  void measure(const HeadRows& rows, const HeadWeights& weights, RowMass* out, std::byte* scratch,
               Workers& workers) const;

 private:
  HeadPasses active_;
  HeadPasses all_;
};

}  // namespace xrun::ops
