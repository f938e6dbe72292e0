// Products of operands by tiles. Only nvcc reads this header.
#pragma once

#include "ops/gpu/tiles.h"

namespace xrun::ops {

// Whether 16 bytes from an address can be copied at once.
template <typename T>
__device__ bool is_aligned_16(const T* p) {
  return reinterpret_cast<uint64_t>(p) % 16 == 0;
}

// A matrix [rows, columns] whose rows are `stride` elements apart.
template <typename T>
struct Matrix {
  const T* first;
  int64_t rows, columns, stride;

  using Row = const T*;
  using Column = int64_t;
  __device__ Row row(int64_t i) const { return i < rows ? first + i * stride : nullptr; }
  __device__ Column column(int64_t i) const { return i < columns ? i : -1; }
  __device__ const T* at(Row row, Column column) const {
    return row != nullptr && column >= 0 ? row + column : nullptr;
  }
  // Whether `chunk` columns from a multiple of `chunk` on all exist or none does, and begin at a multiple of 16 bytes.
  __device__ bool has_chunks(int chunk) const {
    return columns % chunk == 0 && stride % chunk == 0 && is_aligned_16(first);
  }
  __device__ const T* any() const { return first; }  // some address of the operand
};

// The stages of both operands.
template <class Tile>
struct Stages {
  union Factors {
    typename Tile::template Stage<false> columns;
    typename Tile::template Stage<true> rows;
    template <bool kTermsInRows>
    __device__ auto& get() {
      if constexpr (kTermsInRows) {
        return rows;
      } else {
        return columns;
      }
    }
  };
  Factors a[2], b[2];
};

// Adds the terms from `begin` to `end` - 1 of a * b to the sums of a block, for the places from first_a and first_b on.
// All threads of the block call this. It has a barrier before the first term is read and one after the last.
template <bool kTermsInRowsA, bool kTermsInRowsB, class Tile, class A, class B, class Index>
__device__ void add_product(Tile& sums, Stages<Tile>& stages, const A& a, int64_t first_a, const B& b, int64_t first_b,
                            Index begin, Index end) {
  const StageCopies<Tile, kTermsInRowsA, A> copies_a(a, first_a);
  const StageCopies<Tile, kTermsInRowsB, B> copies_b(b, first_b);
  for_each_stage<Tile::kDepth>(
      begin, end,
      [&](Index term, int stage) {
        copies_a.copy(stages.a[stage].template get<kTermsInRowsA>(), term);
        copies_b.copy(stages.b[stage].template get<kTermsInRowsB>(), term);
      },
      [&](int stage, Index) {
        sums.template add<kTermsInRowsA, kTermsInRowsB>(stages.a[stage].template get<kTermsInRowsA>(), 0,
                                                        stages.b[stage].template get<kTermsInRowsB>());
      });
}

// Likewise for a left factor of 64 x 64 elements in shared memory, of which `terms` terms are added; they are rows of
// b. The left factor may be written just before the call.
template <bool kTermsInRowsA, class Tile, class Left, class B>
__device__ void add_left_product(Tile& sums, Stages<Tile>& stages, const Left& left, const B& b, int64_t first_b,
                                 int terms) {
  const StageCopies<Tile, true, B> copies_b(b, first_b);
  for_each_stage<Tile::kDepth>(
      0, terms, [&](int term, int stage) { copies_b.copy(stages.b[stage].rows, term); },
      [&](int stage, int term) { sums.template add<kTermsInRowsA, true>(left, term, stages.b[stage].rows); });
}

// Calls visit(r, c) for each sum of the thread, the numbers of its row and its column among those of the thread.
template <class Tile, class Visit>
__device__ void for_own(const Visit& visit) {
#pragma unroll
  for (int r = 0; r < Tile::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      visit(r, c);
    }
  }
}

// Calls visit(row, column, sum) likewise, with the row and the column of the tile.
template <class Tile, class Visit>
__device__ void for_each_sum(Tile& sums, const Visit& visit) {
  for_own<Tile>([&](int r, int c) { visit(Tile::row(r), Tile::column(c), sums.at(r, c)); });
}

// out [m, n] = sum over k of a * b plus the bias [n], if it is not null, or, if kAccumulate, out plus the sum.
// kTransposedA: a is [k, m], else [m, k]; kTransposedB: b is [n, k], else [k, n]. Grids of ceil(n / 64) x ceil(m / 64)
// blocks.
template <class Tile, bool kTransposedA, bool kTransposedB, bool kAccumulate, typename T, typename Out>
__device__ void product(const T* a, const T* b, const float* bias, Out* out, int64_t m, int64_t n, int64_t k) {
  __shared__ Stages<Tile> stages;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * Tile::kTile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * Tile::kTile;
  const Matrix<T> left = kTransposedA ? Matrix<T>{a, k, m, m} : Matrix<T>{a, m, k, k};
  const Matrix<T> right = kTransposedB ? Matrix<T>{b, n, k, k} : Matrix<T>{b, k, n, n};
  Tile sums = {};
  add_product<kTransposedA, !kTransposedB>(sums, stages, left, first_row, right, first_column, int64_t{0}, k);
  for_each_sum(sums, [&](int r, int c, float sum) {
    const int64_t row = first_row + r, column = first_column + c;
    if (row < m && column < n) {
      Out& to = out[row * n + column];
      const float added = bias != nullptr ? sum + bias[column] : sum;
      assign(to, kAccumulate ? to_float(to) + added : added);
    }
  });
}

}  // namespace xrun::ops
