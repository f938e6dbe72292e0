// Sums down the columns of row-major matrices in the order of the processor (ops/loops/columns.h): 64 rows are added in
// f32, and their sums in f64. Only nvcc reads this header.
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

inline constexpr int kSumRows = 64;         // rows added in f32 before the sum goes to f64
inline constexpr int kColumnsOfBlock = 32;  // columns of a thread block, in threadIdx.x
inline constexpr int kRunsOfBlock = 8;      // runs of 64 rows that a thread block adds at a time, in threadIdx.y

// Reduces the columns of a thread block. `terms(r, c, sums)` adds the terms of row r and column c to kSums numbers;
// `finish(c, totals)` gets the f64 totals of a column, in one thread. REQUIRES: blocks of 32 x 8 threads, all of which
// call this function, with blockIdx.x as the index of 32 columns.
template <int kSums, class Terms, class Finish>
__device__ void reduce_columns(int64_t rows, int64_t columns, const Terms& terms, const Finish& finish) {
  __shared__ float parts[kRunsOfBlock][kSums][kColumnsOfBlock];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + threadIdx.x;
  double totals[kSums] = {};
  for (int64_t first = 0; first < rows; first += kRunsOfBlock * kSumRows) {
    float sums[kSums] = {};
    const int64_t begin = first + static_cast<int64_t>(threadIdx.y) * kSumRows;
    const int64_t end = begin + kSumRows < rows ? begin + kSumRows : rows;
    if (column < columns) {
#pragma unroll 1
      for (int64_t r = begin; r < end; ++r) {
        terms(r, column, sums);
      }
    }
    for (int s = 0; s < kSums; ++s) {
      parts[threadIdx.y][s][threadIdx.x] = sums[s];
    }
    __syncthreads();
    if (threadIdx.y == 0) {
      for (int run = 0; run < kRunsOfBlock && first + run * kSumRows < rows; ++run) {
        for (int s = 0; s < kSums; ++s) {
          totals[s] += static_cast<double>(parts[run][s][threadIdx.x]);
        }
      }
    }
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < columns) {
    finish(column, totals);
  }
}

}  // namespace xrun::ops
