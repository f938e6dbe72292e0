// Products of f32 matrices by tiles: out [m, n] = sum over k of a * b. Each element of the result is one chain of fused
// multiply-adds with k ascending, so its bits depend neither on m, n nor on the grouping of blocks. A block of 256
// threads has a tile of 64 x 64 elements, and copies 16 terms of k at a time to shared memory while it computes the 16
// before (cp.async, two stages). The parts of a tile outside of the matrices are zero.
//   product_nt   a [m, k], b [n, k]    y = x * weight^T
//   product_nn   a [m, k], b [k, n]    dx = dy * weight
//   product_tn   a [k, m], b [k, n]    dweight = dy^T * x
// Tests: tests/ops/gpu/product_test.cpp
#include "ops/gpu/async_copy.h"

using namespace xrun::ops;

namespace xrun::ops {

constexpr int kTile = 64;   // rows and columns of a tile
constexpr int kDepth = 16;  // terms of a stage
constexpr int kOwn = 4;     // rows and columns of a thread
constexpr int kThreads = 256;
constexpr int kStride = kTile + 4;  // distance of two terms in shared memory

using Stage = float[kDepth][kStride];

// Copies a stage of an operand: the element (term, place) to stage[term][place], for 64 places from `first` on and 16
// terms from `k` on. kTermsInRows: rows of the matrix are terms, else places.
template <bool kTermsInRows>
__device__ void copy_stage(Stage& stage, const float* matrix, int64_t places, int64_t terms, int64_t first, int64_t k) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
    // Neighbouring threads read neighbouring numbers.
    const int term = kTermsInRows ? i / kTile : i % kDepth;
    const int place = kTermsInRows ? i % kTile : i / kDepth;
    const bool exists = first + place < places && k + term < terms;
    const int64_t at = kTermsInRows ? (k + term) * places + first + place : (first + place) * terms + k + term;
    copy_async_4(&stage[term][place], matrix + (exists ? at : 0), exists);
  }
}

template <bool kTransposedA, bool kTransposedB>
__device__ void product(const float* a, const float* b, const float* bias, float* out, int64_t m, int64_t n, int64_t k,
                        bool accumulate) {
  __shared__ Stage stages_a[2], stages_b[2];
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int own_row = static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn;
  const int own_column = static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn;
  float sums[kOwn][kOwn] = {};
  const auto copy = [&](int64_t term, int stage) {
    copy_stage<kTransposedA>(stages_a[stage], a, m, k, first_row, term);
    copy_stage<!kTransposedB>(stages_b[stage], b, n, k, first_column, term);
  };
  for_each_stage<kDepth>(k, copy, [&](int stage) {
#pragma unroll 4
    for (int d = 0; d < kDepth; ++d) {
      for (int i = 0; i < kOwn; ++i) {
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] = __fmaf_rn(stages_a[stage][d][own_row + i], stages_b[stage][d][own_column + j], sums[i][j]);
        }
      }
    }
  });
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t row = first_row + own_row + i, column = first_column + own_column + j;
      if (row < m && column < n) {
        float* const to = out + row * n + column;
        const float sum = bias != nullptr ? sums[i][j] + bias[column] : sums[i][j];
        *to = accumulate ? *to + sum : sum;
      }
    }
  }
}

}  // namespace xrun::ops

// `bias` [n] may be null. Grids of ceil(n / 64) x ceil(m / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_nt_f32(const float* a, const float* b, const float* bias, float* out, int64_t m, int64_t n, int64_t k) {
  product<false, true>(a, b, bias, out, m, n, k, false);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    product_nn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<false, false>(a, b, nullptr, out, m, n, k, false);
}
// Adds the product to `out`, an accumulator of gradients.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_tn_f32(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<true, false>(a, b, nullptr, out, m, n, k, true);
}
