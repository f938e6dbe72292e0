// Parts that the kernels of classifier heads share: the places of rows, warps that have one row each, and class rows
// that are rounded at random. Only nvcc reads this header.
//   place   index of a row after padding: every row block starts at a multiple of `padded` places (HeadLayout,
//           graph/layouts/head_shape.h). The number of places is a multiple of 32
//   label   of a place: a class of the head, kNoTarget, or kPadding if no row has this place
#pragma once

#include "graph/base/philox.h"
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

namespace xrun::ops {

inline constexpr int kWarp = 32;
inline constexpr int32_t kNoTarget = -1;
inline constexpr int32_t kPadding = -2;
inline constexpr float kSmallestNorm = 1e-12F;

// Returns the row of a place in row blocks of `block` rows, or -1.
__device__ inline int64_t row_at(int64_t place, int64_t rows, int64_t block, int64_t padded) {
  const int64_t inside = place % padded, row = place / padded * block + inside;
  return inside < block && row < rows ? row : -1;
}
__device__ inline int64_t place_of(int64_t row, int64_t block, int64_t padded) {
  return row / block * padded + row % block;
}

// The row of a thread in grids of one dimension with a warp for each row.
struct WarpRow {
  int64_t row;
  int lane;

  __device__ static WarpRow here() {
    const int64_t i = thread_index();
    return {i / kWarp, static_cast<int>(i % kWarp)};
  }
};

// Adds the running sums of a warp in a fixed tree and returns the sum to all threads.
__device__ inline double sum_of_warp(double running) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    running += __shfl_xor_sync(0xFFFFFFFFU, running, width);
  }
  return running;
}

// Returns the sum over a row of what `term(d)` returns, by the warp of the row.
template <class Term>
__device__ double sum_over_row(int lane, int64_t dim, const Term& term) {
  double running = 0;
#pragma unroll 1
  for (int64_t d = lane; d < dim; d += kWarp) {
    running += term(d);
  }
  return sum_of_warp(running);
}

// Returns 1 / max(norm, 1e-12) of a row.
template <typename T>
__device__ double inverse_norm64(const T* row, int lane, int64_t dim) {
  const double squares = sum_over_row(lane, dim, [&](int64_t d) {
    const auto x = static_cast<double>(to_float(row[d]));
    return x * x;
  });
  const double norm = sqrt(squares), least = static_cast<double>(kSmallestNorm);
  return 1 / (norm > least ? norm : least);
}

// The classes of a call.
struct Range {
  int64_t first;
  int64_t count;

  __device__ bool has(int32_t label) const { return label >= first && label < first + count; }
};

// Rounds element d of a class row to T: f32 as it is, bf16 at random with the draws of the row (ops/head/row_format.h).
__device__ inline void store_element(float& to, float x, const xrun::StreamKey&, int64_t) { to = x; }
__device__ inline void store_element(Bf16& to, float x, const xrun::StreamKey& random, int64_t d) {
  const xrun::PhiloxWords draws = random.block(static_cast<uint64_t>(d / 8));
  const uint32_t low = d % 4 < 2 ? draws.word[0] : draws.word[1];
  const uint32_t high = d % 4 < 2 ? draws.word[2] : draws.word[3];
  const uint32_t word = d % 8 < 4 ? low : high;
  const uint32_t draw = d % 2 == 0 ? word & 0xFFFFU : word >> 16;
  const uint32_t u = __float_as_uint(x);
  to = Bf16{static_cast<uint16_t>(x == x ? (u + draw) >> 16 : (u >> 16) | 0x40U)};
}

}  // namespace xrun::ops
