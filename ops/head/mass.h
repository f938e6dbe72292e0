// How much of the softmax over all classes the active ones of a step have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/head.h"

namespace xrun::ops {

// Of one row and a shard: {max, sum of exp(z - max)} of its active classes, and of all of them.
struct RowMass {
  float active_max = 0;
  float active_sum = 0;
  float all_max = 0;
  float all_sum = 0;
};

// The share that the active classes have of the softmax over all, its mean over rows. `shards`: of each shard all rows.
double active_share(std::span<const std::vector<RowMass>> shards);

// Immutable; calls on different buffers may run at once.
class HeadMass {
 public:
  // `shape` as of a pass over the active classes.
  HeadMass(const HeadShape& shape, Isa isa);

  // Two forward passes, one over the active classes of `rows` and one over all. `out`: a RowMass for each row;
  // `scratch`: head_mass_scratch_bytes of the shape.
  void measure(const HeadRows& rows, const HeadWeights& weights, RowMass* out, std::byte* scratch,
               Workers& workers) const;

 private:
  HeadPasses active_;
  HeadPasses all_;
};

}  // namespace xrun::ops
