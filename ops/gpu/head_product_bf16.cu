// Products of a classifier head on tensor cores: bf16 operands, f32 results, for consecutive class blocks. Each element
// takes 16 terms at a time with ascending terms (mma.sync m16n8k16): dimensions for logits, the classes of one block
// for dX, rows for dW. So its bits depend neither on the number of rows, classes or class blocks of a launch, nor on
// where the row blocks of dW, which are padded to 32 places, are divided among launches. A block of four warps has a
// tile of 64 x 64 elements, and copies 32 terms at a time to shared memory while it computes the 32 before (cp.async,
// two stages). Terms that do not exist are zero. Dimensions and places are multiples of 32, and operands are aligned to
// 16 bytes. Tiles are numbered along x, so their number is limited by 2^31 only.
// Tests: tests/ops/gpu/head_test.cpp
#include "ops/gpu/async_copy.h"
#include "ops/gpu/head_rows.h"

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

// A matrix as operand: rows of `stride` numbers, of which some are rows or columns of the product, others its terms.
struct Operand {
  const Bf16* data;
  int64_t stride;
  int64_t places;  // rows or columns of the product
};

// Copies 64 places from `first` on and 32 terms from `term` on. The number of places or terms along the rows of the
// matrix is a multiple of 8.
template <bool kTermsInRows>
__device__ void copy_stage(Stage<kTermsInRows>& stage, const Operand& of, int64_t terms, int64_t first, int64_t term) {
  using S = Stage<kTermsInRows>;
  constexpr int kChunks = S::kColumns / kChunk;
  const int64_t rows = kTermsInRows ? terms : of.places, columns = kTermsInRows ? of.places : terms;
  const int64_t row = kTermsInRows ? term : first, column = kTermsInRows ? first : term;
#pragma unroll 1
  for (int i = threadIdx.x; i < S::kRows * kChunks; i += kThreads) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    const bool exists = row + r < rows && column + c < columns;
    copy_async_16(&stage.element[r][c], exists ? of.data + (row + r) * of.stride + column + c : of.data,
                  exists ? 16 : 0);
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

// The place of a warp in the grid: its lane, its part of the tile, and the tile's first row and column.
struct Tile {
  int64_t row;
  int64_t column;
  int lane;
  int own_row;
  int own_column;

  __device__ static Tile at(int64_t row, int64_t column) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    return {row, column, static_cast<int>(threadIdx.x) % kWarp, warp / 2 * kOwn, warp % 2 * kOwn};
  }
};

// Adds all terms to the sums of a tile. Warps whose part of the tile does not exist only copy.
template <bool kTermsInRowsA, bool kTermsInRowsB>
__device__ void add_products(Sums& sums, const Operand& a, const Operand& b, int64_t terms, const Tile& at) {
  __shared__ Stage<kTermsInRowsA> stages_a[2];
  __shared__ Stage<kTermsInRowsB> stages_b[2];
  const bool exists = at.row + at.own_row < a.places && at.column + at.own_column < b.places;
  const auto copy = [&](int64_t term, int stage) {
    copy_stage(stages_a[stage], a, terms, at.row, term);
    copy_stage(stages_b[stage], b, terms, at.column, term);
  };
  for_each_stage<kDepth>(terms, copy, [&](int stage) {
    if (!exists) {
      return;
    }
#pragma unroll
    for (int term = 0; term < kDepth; term += 16) {
      uint32_t rows[2][4];
      for (int i = 0; i < 2; ++i) {
        load_rows(rows[i], stages_a[stage], at.own_row + i * 16, term, at.lane);
      }
      for (int j = 0; j < 4; j += 2) {
        uint32_t columns[4];
        load_columns(columns, stages_b[stage], at.own_column + j * 8, term, at.lane);
        for (int i = 0; i < 2; ++i) {
          multiply(sums[i][j], rows[i], columns[0], columns[1]);
          multiply(sums[i][j + 1], rows[i], columns[2], columns[3]);
        }
      }
    }
  });
}

// Calls body(row, column, sum) for the elements of a thread that exist.
template <class Body>
__device__ void for_sums(Sums& sums, const Tile& at, int64_t rows, int64_t columns, const Body& body) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t row = at.row + at.own_row + i * 16 + at.lane / 4 + e / 2 * 8;
        const int64_t column = at.column + at.own_column + j * 8 + at.lane % 4 * 2 + e % 2;
        if (row < rows && column < columns) {
          body(row, column, sums[i][j][e]);
        }
      }
    }
  }
}

__device__ inline int64_t tiles_of(int64_t n) { return (n + kTile - 1) / kTile; }

}  // namespace xrun::ops

// Logits z [count, places] of the classes [count, dims] and the rows [places, dims], plus `bias` [count] unless it is
// null; clamped to -1 .. 1 if `clamp`. Grids of ceil(count / 64) * ceil(places / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_logits_bf16(const Bf16* classes, const Bf16* rows, const float* bias, float* z, int64_t count,
                             int64_t places, int64_t dims, uint32_t clamp) {
  const Tile at = Tile::at(blockIdx.x / tiles_of(places) * kTile, blockIdx.x % tiles_of(places) * kTile);
  Sums sums = {};
  add_products<false, false>(sums, {classes, dims, count}, {rows, dims, places}, dims, at);
  for_sums(sums, at, count, places, [&](int64_t c, int64_t place, float x) {
    x = bias == nullptr ? x : x + bias[c];
    z[c * places + place] = clamp == 0 ? x : x < -1.0F ? -1.0F : x > 1.0F ? 1.0F : x;
  });
}

// dX partials of class blocks of `size` classes: dx[b] [places, dims] = g^T * classes over the classes of block b, with
// `slot` numbers from one block's to the next one's. Grids of ceil(count / size) * ceil(places / 64) * ceil(dims / 64)
// blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_dx_bf16(const Bf16* g, const Bf16* classes, float* dx, int64_t count, int64_t size, int64_t places,
                         int64_t dims, int64_t slot) {
  const int64_t across = tiles_of(dims), tiles = tiles_of(places) * across;
  const int64_t block = blockIdx.x / tiles, begin = block * size;
  const Tile at = Tile::at(blockIdx.x % tiles / across * kTile, blockIdx.x % across * kTile);
  Sums sums = {};
  add_products<true, true>(sums, {g + begin * places, places, places}, {classes + begin * dims, dims, dims},
                           count - begin < size ? count - begin : size, at);
  for_sums(sums, at, places, dims,
           [&](int64_t place, int64_t d, float sum) { dx[block * slot + place * dims + d] = sum; });
}

// dW [count, dims] = g * rows over the first `terms` places, a multiple of 32, continued from dW if `add`. Grids of
// ceil(count / 64) * ceil(dims / 64) blocks.
extern "C" __global__ void __launch_bounds__(kThreads)
    product_head_dw_bf16(const Bf16* g, const Bf16* rows, float* dw, int64_t count, int64_t places, int64_t terms,
                         int64_t dims, uint32_t add) {
  const Tile at = Tile::at(blockIdx.x / tiles_of(dims) * kTile, blockIdx.x % tiles_of(dims) * kTile);
  Sums sums = {};
  if (add != 0) {
    for_sums(sums, at, count, dims, [&](int64_t c, int64_t d, float& sum) { sum = dw[c * dims + d]; });
  }
  add_products<false, true>(sums, {g, places, count}, {rows, dims, dims}, terms, at);
  for_sums(sums, at, count, dims, [&](int64_t c, int64_t d, float sum) { dw[c * dims + d] = sum; });
}
