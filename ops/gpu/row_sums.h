// Sums over a row in the order of the processor (ops/simd/lane_sums.h): sixteen threads have one running sum each, of
// the elements i, i + 16, ..., and a tree adds them. A warp has two rows. Only nvcc reads this header.
#pragma once

#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

namespace xrun::ops {

// The row of a thread and its place in it, for grids of one dimension with kLanes threads a row. All threads of a warp
// must call the sums below, so those of rows that do not exist do so with zeros.
struct RowThread {
  int64_t row;
  int lane;

  __device__ static RowThread here() {
    const int64_t i = thread_index();
    return {i / kLanes, static_cast<int>(i % kLanes)};
  }
};

// Adds the running sums of a row in the tree of `sum_lanes` and returns the sum to all threads of the row.
template <typename T>
__device__ T sum_of_row(T running) {
#pragma unroll
  for (int width = kLanes / 2; width > 0; width /= 2) {
    running += __shfl_down_sync(0xFFFFFFFFU, running, width, kLanes);
  }
  return __shfl_sync(0xFFFFFFFFU, running, 0, kLanes);
}

// The largest number of a row by `taken`, a function of two numbers whose result does not depend on the order.
template <typename T, class Taken>
__device__ T best_of_row(T best, const Taken& taken) {
#pragma unroll
  for (int width = kLanes / 2; width > 0; width /= 2) {
    best = taken(best, __shfl_xor_sync(0xFFFFFFFFU, best, width, kLanes));
  }
  return best;
}

}  // namespace xrun::ops
