// Sums down the columns of row-major matrices [rows, columns] in a fixed order: 64 rows are added in f32, and their
// sums in f64.
#pragma once

#include <cstdint>

#include "ops/isa.h"
#include "ops/parts.h"
#include "ops/simd.h"

namespace xrun::ops {

// sums[c] += sum over r of x[r, c], for all columns or for those of `some`.
void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, Range some, float* sums);
void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, Range some, float* sums);

// Kernels that sum down columns are cut between runs of this many columns: one cache line of x, and whole lanes.
template <typename T>
inline constexpr int64_t kColumnRun = 64 / static_cast<int64_t>(sizeof(T));

inline constexpr int64_t kSumBlock = 64;  // rows added in f32 before the sum goes to f64

// Reduces one strip of kGroups · 16 columns (fewer in the last group); arguments as of reduce_columns.
template <class L, int kSums, int kGroups, typename Add, typename Finish>
XRUN_INLINE void reduce_strip(int64_t rows, int64_t columns, int64_t c, const Add& add, const Finish& finish) {
  double totals[kGroups][kSums][kLanes] = {};
  for (int64_t begin = 0; begin < rows; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < rows ? begin + kSumBlock : rows;
    L sums[kGroups][kSums] = {};
    for (int64_t r = begin; r < end; ++r) {
      for (int g = 0; g < kGroups; ++g) {
        add(r, c + g * kLanes, columns - c - g * kLanes, sums[g]);
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      for (int s = 0; s < kSums; ++s) {
        float lanes[kLanes];
        store(lanes, sums[g][s]);
        for (int i = 0; i < kLanes; ++i) {
          totals[g][s][i] += static_cast<double>(lanes[i]);
        }
      }
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    const int64_t left = columns - c - g * kLanes;
    finish(c + g * kLanes, left < kLanes ? left : kLanes, totals[g]);
  }
}

// Walks columns begin .. end - 1: add(r, c, left, sums) adds the terms of row r, columns c .. c + 15 (of which `left`
// exist) to kSums lane groups; finish(c, n, totals) gets the f64 totals [kSums][16] of n columns. Strips of 64 columns
// use whole cache lines of bf16; the order of a column's terms is the same in any strip.
template <class L, int kSums, typename Add, typename Finish>
XRUN_INLINE void reduce_columns(int64_t rows, int64_t begin, int64_t end, const Add& add, const Finish& finish) {
  constexpr int kWide = 4;
  int64_t c = begin;
  for (; c + kWide * kLanes <= end; c += kWide * kLanes) {
    reduce_strip<L, kSums, kWide>(rows, end, c, add, finish);
  }
  for (; c < end; c += kLanes) {
    reduce_strip<L, kSums, 1>(rows, end, c, add, finish);
  }
}

}  // namespace xrun::ops
