// Products of a classifier head in f32, for consecutive class blocks. Each element is one chain of fused multiply-adds
// with ascending terms: dimensions for logits, the classes of one block for dX, rows for dW. So its bits depend neither
// on the number of rows, classes or class blocks of a launch, nor on where the rows of dW are divided among launches. A
// block of 256 threads has a tile of 64 x 64 elements, and copies 16 terms at a time to shared memory while it computes
// the 16 before (cp.async, two stages). Tiles are numbered along x, so their number is limited by 2^31 only.
// Tests: tests/ops/gpu/head_test.cpp
#include "ops/gpu/async_copy.h"
#include "ops/gpu/head_rows.h"

using namespace xrun::ops;

namespace xrun::ops {

constexpr int kTile = 64;   // rows and columns of a tile
constexpr int kDepth = 16;  // terms of a stage
constexpr int kOwn = 4;     // rows and columns of a thread
constexpr int kThreads = 256;
constexpr int kStride = kTile + 4;  // distance of two terms in shared memory

using Stage = float[kDepth][kStride];
using Sums = float[kOwn][kOwn];

// A matrix as operand: rows of `stride` numbers, of which some are rows or columns of the product, others its terms.
struct Operand {
  const float* data;
  int64_t stride;
  int64_t places;  // rows or columns of the product
};

// Copies the element (term, place) to stage[term][place], for 64 places from `first` on and 16 terms from `term` on.
template <bool kTermsInRows>
__device__ void copy_stage(Stage& stage, const Operand& of, int64_t terms, int64_t first, int64_t term) {
  for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
    // Neighbouring threads read neighbouring numbers.
    const int t = kTermsInRows ? i / kTile : i % kDepth;
    const int p = kTermsInRows ? i % kTile : i / kDepth;
    const bool exists = first + p < of.places && term + t < terms;
    const int64_t at = kTermsInRows ? (term + t) * of.stride + first + p : (first + p) * of.stride + term + t;
    copy_async_4(&stage[t][p], of.data + (exists ? at : 0), exists);
  }
}

// Adds all terms to the sums of the tile that begins at (row, column).
template <bool kTermsInRowsA, bool kTermsInRowsB>
__device__ void add_products(Sums& sums, const Operand& a, const Operand& b, int64_t terms, int64_t row, int64_t column,
                             int own_row, int own_column) {
  __shared__ Stage stages_a[2], stages_b[2];
  const bool exists = row + own_row < a.places && column + own_column < b.places;
  int64_t left = terms;
  const auto copy = [&](int64_t term, int stage) {
    copy_stage<kTermsInRowsA>(stages_a[stage], a, terms, row, term);
    copy_stage<kTermsInRowsB>(stages_b[stage], b, terms, column, term);
  };
  for_each_stage<kDepth>(terms, copy, [&](int stage) {
    const int depth = left < kDepth ? static_cast<int>(left) : kDepth;
    left -= kDepth;
#pragma unroll 1
    for (int d = 0; exists && d < depth; ++d) {
      for (int i = 0; i < kOwn; ++i) {
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] = __fmaf_rn(stages_a[stage][d][own_row + i], stages_b[stage][d][own_column + j], sums[i][j]);
        }
      }
    }
  });
}

// Calls body(row, column, sum) for the elements of a thread that exist.
template <class Body>
__device__ void for_sums(Sums& sums, int64_t row, int64_t column, int64_t rows, int64_t columns, const Body& body) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (row + i < rows && column + j < columns) {
        body(row + i, column + j, sums[i][j]);
      }
    }
  }
}

__device__ inline int64_t tiles_of(int64_t n) { return (n + kTile - 1) / kTile; }
__device__ inline int thread_row() { return static_cast<int>(threadIdx.x) / (kTile / kOwn) * kOwn; }
__device__ inline int thread_column() { return static_cast<int>(threadIdx.x) % (kTile / kOwn) * kOwn; }

}  // namespace xrun::ops

// Logits z [count, places] of the classes [count, dims] and the rows [places, dims], plus `bias` [count] unless it is
// null; clamped to -1 .. 1 if `clamp`. Grids of ceil(count / 64) * ceil(places / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_logits_f32(const float* classes, const float* rows, const float* bias, float* z, int64_t count,
                            int64_t places, int64_t dims, uint32_t clamp) {
  const int64_t row = blockIdx.x / tiles_of(places) * kTile, column = blockIdx.x % tiles_of(places) * kTile;
  Sums sums = {};
  add_products<false, false>(sums, {classes, dims, count}, {rows, dims, places}, dims, row, column, thread_row(),
                             thread_column());
  for_sums(sums, row + thread_row(), column + thread_column(), count, places, [&](int64_t c, int64_t place, float x) {
    x = bias == nullptr ? x : x + bias[c];
    z[c * places + place] = clamp == 0 ? x : x < -1.0F ? -1.0F : x > 1.0F ? 1.0F : x;
  });
}

// dX partials of class blocks of `size` classes: dx[b] [places, dims] = g^T * classes over the classes of block b, with
// `slot` numbers from one block's to the next one's. Grids of ceil(count / size) * ceil(places / 64) * ceil(dims / 64)
// blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_dx_f32(const float* g, const float* classes, float* dx, int64_t count, int64_t size, int64_t places,
                        int64_t dims, int64_t slot) {
  const int64_t across = tiles_of(dims), tiles = tiles_of(places) * across;
  const int64_t block = blockIdx.x / tiles, begin = block * size;
  const int64_t row = blockIdx.x % tiles / across * kTile, column = blockIdx.x % across * kTile;
  Sums sums = {};
  add_products<true, true>(sums, {g + begin * places, places, places}, {classes + begin * dims, dims, dims},
                           count - begin < size ? count - begin : size, row, column, thread_row(), thread_column());
  for_sums(sums, row + thread_row(), column + thread_column(), places, dims,
           [&](int64_t place, int64_t d, float sum) { dx[block * slot + place * dims + d] = sum; });
}

// dW [count, dims] = g * rows over the first `terms` places, continued from dW if `add`. Grids of ceil(count / 64) *
// ceil(dims / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_dw_f32(const float* g, const float* rows, float* dw, int64_t count, int64_t places, int64_t terms,
                        int64_t dims, uint32_t add) {
  const int64_t row = blockIdx.x / tiles_of(dims) * kTile, column = blockIdx.x % tiles_of(dims) * kTile;
  const int64_t own_row = row + thread_row(), own_column = column + thread_column();
  Sums sums = {};
  if (add != 0) {
    for_sums(sums, own_row, own_column, count, dims, [&](int64_t c, int64_t d, float& sum) { sum = dw[c * dims + d]; });
  }
  add_products<false, true>(sums, {g, places, count}, {rows, dims, dims}, terms, row, column, thread_row(),
                            thread_column());
  for_sums(sums, own_row, own_column, count, dims, [&](int64_t c, int64_t d, float sum) { dw[c * dims + d] = sum; });
}
