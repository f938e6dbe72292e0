// Tiles of 64 x 64 sums of products, one for a block of threads: bf16 on tensor cores, f32 by chains of fused
// multiply-adds. Terms are copied to shared memory a stage at a time while the stage before is added (cp.async, two
// stages). The sum of an element takes the terms in ascending order, so its bits depend on no other element. Only nvcc
// reads this header.
#pragma once

#include "ops/gpu/async_copy.h"

namespace xrun::ops {

// 256 threads, each with 4 x 4 sums.
struct TileF32 {
  static constexpr int kTile = 64, kDepth = 16, kThreads = 256, kChunk = 1, kOwn = 4;
  static constexpr int kRows = kOwn, kColumns = kOwn;  // sums of a thread
  static constexpr int kParts = kTile / kOwn;          // threads that share a row

  template <bool kTermsInRows, int kTerms>
  struct Factors {
    float element[kTerms][kTile + 4];  // [term][place]
    __device__ float* at(int row, int column) { return kTermsInRows ? &element[row][column] : &element[column][row]; }
  };
  template <bool kTermsInRows>
  using Stage = Factors<kTermsInRows, kDepth>;
  template <bool kTermsInRows>
  using Left = Factors<kTermsInRows, kTile>;

  __device__ static void copy(float* to, const float* from, bool exists) { copy_async_4(to, from, exists); }
  __device__ static int part() { return static_cast<int>(threadIdx.x) % kParts; }
  __device__ static int row(int r) { return static_cast<int>(threadIdx.x) / kParts * kOwn + r; }
  __device__ static int column(int c) { return part() * kOwn + c; }
  __device__ float& at(int r, int c) { return sums[r][c]; }

  // Adds the terms of a stage of b and as many of a, from `first` on.
  template <bool kTermsInRowsA, bool kTermsInRowsB, class A, class B>
  __device__ void add(const A& a, int first, const B& b) {
#pragma unroll 4
    for (int d = 0; d < kDepth; ++d) {
      for (int i = 0; i < kOwn; ++i) {
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] = __fmaf_rn(a.element[first + d][row(i)], b.element[d][column(j)], sums[i][j]);
        }
      }
    }
  }

  float sums[kOwn][kOwn];
};

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
__device__ inline void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four warps, each with 32 x 32 sums: 2 x 4 parts of 16 rows and 8 columns. 16 terms are added at a time.
struct TileBf16 {
  static constexpr int kTile = 64, kDepth = 32, kThreads = 128, kChunk = 8, kOwn = 32;
  static constexpr int kRows = 4, kColumns = 8, kParts = 8;

  // Factors as their rows lie in memory, with 8 more elements, so that ldmatrix reads different banks.
  template <int kFactorRows, int kFactorColumns>
  struct Factors {
    __align__(16) Bf16 element[kFactorRows][kFactorColumns + kChunk];
    __device__ Bf16* at(int row, int column) { return &element[row][column]; }
  };
  template <bool kTermsInRows>
  using Stage = Factors<kTermsInRows ? kDepth : kTile, kTermsInRows ? kTile : kDepth>;
  template <bool>
  using Left = Factors<kTile, kTile>;

  __device__ static void copy(Bf16* to, const Bf16* from, bool exists) { copy_async_16(to, from, exists ? 16 : 0); }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int part() { return warp() % 2 * 4 + lane() % 4; }
  __device__ static int row(int r) { return warp() / 2 * kOwn + r / 2 * 16 + lane() / 4 + r % 2 * 8; }
  __device__ static int column(int c) { return warp() % 2 * kOwn + c / 2 * 8 + lane() % 4 * 2 + c % 2; }
  __device__ float& at(int r, int c) { return sums[r / 2][c / 2][r % 2 * 2 + c % 2]; }

  // The operand of 16 rows and 16 terms, from `place` and `term` on.
  template <bool kTermsInRows, class A>
  __device__ static void load_rows(uint32_t (&to)[4], const A& a, int place, int term) {
    if constexpr (kTermsInRows) {
      load_transposed(to, &a.element[term + lane() / 16 * 8 + lane() % 8][place + lane() / 8 % 2 * 8]);
    } else {
      load_matrices(to, &a.element[place + lane() % 16][term + lane() / 16 * 8]);
    }
  }
  // The operands of twice 8 columns and 16 terms.
  template <bool kTermsInRows, class B>
  __device__ static void load_columns(uint32_t (&to)[4], const B& b, int place, int term) {
    if constexpr (kTermsInRows) {
      load_transposed(to, &b.element[term + lane() % 16][place + lane() / 16 * 8]);
    } else {
      load_matrices(to, &b.element[place + lane() % 8 + lane() / 16 * 8][term + lane() / 8 % 2 * 8]);
    }
  }

  template <bool kTermsInRowsA, bool kTermsInRowsB, class A, class B>
  __device__ void add(const A& a, int first, const B& b) {
#pragma unroll
    for (int term = 0; term < kDepth; term += 16) {
      uint32_t rows[2][4];
      for (int i = 0; i < 2; ++i) {
        load_rows<kTermsInRowsA>(rows[i], a, warp() / 2 * kOwn + i * 16, first + term);
      }
      for (int j = 0; j < 4; j += 2) {
        uint32_t columns[4];
        load_columns<kTermsInRowsB>(columns, b, warp() % 2 * kOwn + j * 8, term);
        for (int i = 0; i < 2; ++i) {
          multiply(sums[i][j], rows[i], columns[0], columns[1]);
          multiply(sums[i][j + 1], rows[i], columns[2], columns[3]);
        }
      }
    }
  }

  float sums[2][4][4];
};

}  // namespace xrun::ops
