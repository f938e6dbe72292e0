// Sums of f64 in ascending order, as one thread would add them. Only nvcc reads this header.
#pragma once

#include <cstdint>

namespace xrun::ops {

inline constexpr int kTermsInOrder = 1024;  // terms that a thread block loads at a time

// Adds term(0), term(1), ... term(count - 1) in this order and returns the sum to thread 0. All threads of the block
// load terms, which wait for their sum in `shared` [kTermsInOrder]; only thread 0 adds. All threads of a block must
// call it.
template <class Term>
__device__ double sum_in_order(int64_t count, double* shared, const Term& term) {
  double sum = 0;
#pragma unroll 1
  for (int64_t begin = 0; begin < count; begin += kTermsInOrder) {
    const auto some = static_cast<int>(count - begin < kTermsInOrder ? count - begin : kTermsInOrder);
    for (int i = static_cast<int>(threadIdx.x); i < some; i += static_cast<int>(blockDim.x)) {
      shared[i] = term(begin + i);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 8
      for (int i = 0; i < some; ++i) {
        sum += shared[i];
      }
    }
    __syncthreads();
  }
  return sum;
}

}  // namespace xrun::ops
