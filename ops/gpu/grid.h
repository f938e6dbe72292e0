// The place of a thread in the grid of a kernel. Only nvcc reads this header.
#pragma once

#include <cstdint>

namespace xrun::ops {

// Index of the thread in a grid of one dimension.
__device__ inline int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

}  // namespace xrun::ops
