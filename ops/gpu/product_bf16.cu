// Products of bf16 matrices on tensor cores by tiles: out [m, n] = sum over k of a * b, in f32. The sum of each element
// takes 16 terms at a time with k ascending (mma.sync m16n8k16), so its bits depend neither on m, n nor on the grouping
// of blocks. A block of four warps has a tile of 64 x 64 elements and copies 32 terms of k at a time to shared memory
// while it computes the 32 before (cp.async, two stages). The parts of a tile outside of the matrices are zero.
//   product_nt   a [m, k], b [n, k]    y = x * weight^T
//   product_nn   a [m, k], b [k, n]    dx = dy * weight
//   product_tn   a [k, m], b [k, n]    dweight = dy^T * x
// Tests: tests/ops/gpu/product_test.cpp
#include "ops/gpu/async_copy.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

constexpr int kTile = 64;   // rows and columns of a tile
constexpr int kDepth = 32;  // terms of a stage
constexpr int kOwn = 32;    // rows and columns of a warp
constexpr int kThreads = 128;
constexpr int kChunk = 8;  // elements of a copy

// A stage of an operand, as its matrix lies in memory. Rows have 8 more elements, so that ldmatrix reads different
// banks.
template <bool kTermsInRows>
struct Stage {
  static constexpr int kRows = kTermsInRows ? kDepth : kTile;
  static constexpr int kColumns = kTermsInRows ? kTile : kDepth;
  __align__(16) Bf16 element[kRows][kColumns + kChunk];
};

// Copies a stage: rows from `row` on and columns from `column` on of a matrix [rows, columns].
template <bool kTermsInRows>
__device__ void copy_stage(Stage<kTermsInRows>& stage, const Bf16* matrix, int64_t rows, int64_t columns, int64_t row,
                           int64_t column) {
  using S = Stage<kTermsInRows>;
  constexpr int kChunks = S::kColumns / kChunk;
  const bool aligned = columns % kChunk == 0 && reinterpret_cast<uint64_t>(matrix) % 16 == 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < S::kRows * kChunks; i += kThreads) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    const int64_t left = row + r < rows ? columns - column - c : 0;
    Bf16* const to = &stage.element[r][c];
    const Bf16* const from = matrix + (row + r) * columns + column + c;
    if (aligned) {
      copy_async_16(to, left > 0 ? from : matrix, left > 0 ? 16 : 0);
    } else {
#pragma unroll 1
      for (int e = 0; e < kChunk; ++e) {
        to[e] = e < left ? from[e] : Bf16{0};
      }
    }
  }
}

__device__ inline void load_matrices(uint32_t (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from))
               : "memory");
}
__device__ inline void load_transposed(uint32_t (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from))
               : "memory");
}

// The operand of 16 rows and 16 terms, from `place` and `term` on.
template <bool kTermsInRows>
__device__ void load_rows(uint32_t (&to)[4], const Stage<kTermsInRows>& stage, int place, int term, int lane) {
  if constexpr (kTermsInRows) {
    load_transposed(to, &stage.element[term + lane / 16 * 8 + lane % 8][place + lane / 8 % 2 * 8]);
  } else {
    load_matrices(to, &stage.element[place + lane % 16][term + lane / 16 * 8]);
  }
}

// The operands of twice 8 columns and 16 terms.
template <bool kTermsInRows>
__device__ void load_columns(uint32_t (&to)[4], const Stage<kTermsInRows>& stage, int place, int term, int lane) {
  if constexpr (kTermsInRows) {
    load_transposed(to, &stage.element[term + lane % 16][place + lane / 16 * 8]);
  } else {
    load_matrices(to, &stage.element[place + lane % 8 + lane / 16 * 8][term + lane / 8 % 2 * 8]);
  }
}

__device__ inline void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The sums of a warp: 2 x 4 parts of 16 rows and 8 columns.
using Sums = float[2][4][4];

template <bool kTransposedA, bool kTransposedB>
__device__ void add_stage(Sums& sums, const Stage<kTransposedA>& a, const Stage<!kTransposedB>& b, int row, int column,
                          int lane) {
#pragma unroll
  for (int term = 0; term < kDepth; term += 16) {
    uint32_t rows[2][4];
    for (int i = 0; i < 2; ++i) {
      load_rows(rows[i], a, row + i * 16, term, lane);
    }
    for (int j = 0; j < 4; j += 2) {
      uint32_t columns[4];
      load_columns(columns, b, column + j * 8, term, lane);
      for (int i = 0; i < 2; ++i) {
        multiply(sums[i][j], rows[i], columns[0], columns[1]);
        multiply(sums[i][j + 1], rows[i], columns[2], columns[3]);
      }
    }
  }
}

template <bool kTransposedA, bool kTransposedB, bool kAccumulate, typename T>
__device__ void product(const Bf16* a, const Bf16* b, const float* bias, T* out, int64_t m, int64_t n, int64_t k) {
  __shared__ Stage<kTransposedA> stages_a[2];
  __shared__ Stage<!kTransposedB> stages_b[2];
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int own_row = warp / 2 * kOwn, own_column = warp % 2 * kOwn;
  Sums sums = {};
  const auto copy = [&](int64_t term, int stage) {
    if constexpr (kTransposedA) {
      copy_stage(stages_a[stage], a, k, m, term, first_row);
    } else {
      copy_stage(stages_a[stage], a, m, k, first_row, term);
    }
    if constexpr (kTransposedB) {
      copy_stage(stages_b[stage], b, n, k, first_column, term);
    } else {
      copy_stage(stages_b[stage], b, k, n, term, first_column);
    }
  };
  for_each_stage<kDepth>(k, copy, [&](int stage) {
    add_stage<kTransposedA, kTransposedB>(sums, stages_a[stage], stages_b[stage], own_row, own_column, lane);
  });
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t row = first_row + own_row + i * 16 + lane / 4 + e / 2 * 8;
        const int64_t column = first_column + own_column + j * 8 + lane % 4 * 2 + e % 2;
        if (row < m && column < n) {
          T& to = out[row * n + column];
          const float sum = bias != nullptr ? sums[i][j][e] + bias[column] : sums[i][j][e];
          assign(to, kAccumulate ? to_float(to) + sum : sum);
        }
      }
    }
  }
}

}  // namespace xrun::ops

// `bias` [n] may be null. Grids of ceil(n / 64) x ceil(m / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_nt_bf16(const Bf16* a, const Bf16* b, const float* bias, Bf16* out, int64_t m, int64_t n, int64_t k) {
  product<false, true, false>(a, b, bias, out, m, n, k);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    product_nn_bf16(const Bf16* a, const Bf16* b, Bf16* out, int64_t m, int64_t n, int64_t k) {
  product<false, false, false>(a, b, nullptr, out, m, n, k);
}
// Adds the product to `out`, an accumulator of gradients in f32.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_tn_bf16(const Bf16* a, const Bf16* b, float* out, int64_t m, int64_t n, int64_t k) {
  product<true, false, true>(a, b, nullptr, out, m, n, k);
}
