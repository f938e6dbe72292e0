// Sums down the columns of row-major matrices [rows, columns] in a fixed order: 64 rows are added in f32, and their
// sums in f64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ops/parts.h"
#include "ops/simd/isa.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

// Adds the sums of the columns to `sums`: sums[c] += sum over r of x[r, c]. With `some`, only for these columns.
void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const Half* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, Range some, float* sums);
void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, Range some, float* sums);
void add_column_sums(Isa isa, const Half* x, int64_t rows, int64_t columns, Range some, float* sums);

// Kernels that sum down columns are divided into parts at multiples of this many columns, which are one cache line of x
// and whole lanes.
template <typename T>
inline constexpr int64_t kColumnRun = 64 / static_cast<int64_t>(sizeof(T));

inline constexpr int64_t kSumBlock = 64;  // rows added in f32 before the sum goes to f64

// Reduces a strip of `groups` · 16 columns, at most kMost · 16; the last group may have fewer columns. The arguments
// are those of reduce_columns. `groups` is a compile-time constant for common sizes, so that the compiler keeps the
// sums in registers.
template <class L, int kSums, int kMost, typename Groups, typename Add, typename Finish>
XRUN_INLINE void reduce_strip(int64_t rows, int64_t columns, int64_t c, Groups groups, const Add& add,
                              const Finish& finish) {
  double totals[kMost][kSums][kLanes];
  L sums[kMost][kSums];
  for (int g = 0; g < groups; ++g) {
    for (int s = 0; s < kSums; ++s) {
      std::fill_n(totals[g][s], kLanes, 0.0);
    }
  }
  for (int64_t begin = 0; begin < rows; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < rows ? begin + kSumBlock : rows;
    for (int g = 0; g < groups; ++g) {
      for (int s = 0; s < kSums; ++s) {
        sums[g][s] = L{};
      }
    }
    for (int64_t r = begin; r < end; ++r) {
      for (int g = 0; g < groups; ++g) {
        add(r, c + g * kLanes, columns - c - g * kLanes, sums[g]);
      }
    }
    for (int g = 0; g < groups; ++g) {
      for (int s = 0; s < kSums; ++s) {
        float lanes[kLanes];
        store(lanes, sums[g][s]);
        for (int i = 0; i < kLanes; ++i) {
          totals[g][s][i] += static_cast<double>(lanes[i]);
        }
      }
    }
  }
  for (int g = 0; g < groups; ++g) {
    const int64_t left = columns - c - g * kLanes;
    finish(c + g * kLanes, left < kLanes ? left : kLanes, totals[g]);
  }
}

// Reduces columns begin .. end - 1. add(r, c, left, sums) adds the terms of row r and columns c .. c + 15, of which
// `left` exist, to kSums groups of lanes. finish(c, n, totals) gets the f64 totals [kSums][16] of n columns. Columns
// are reduced in strips of up to 512 columns, so that rows are read in memory order. The order in which the terms of a
// column are added does not depend on the strips.
template <class L, int kSums, typename Add, typename Finish>
XRUN_INLINE void reduce_columns(int64_t rows, int64_t begin, int64_t end, const Add& add, const Finish& finish) {
  constexpr int kFew = 4;
  constexpr int kMost = 32;
  for (int64_t c = begin; c < end;) {
    const int64_t left = (end - c + kLanes - 1) / kLanes;
    const int groups = static_cast<int>(left < kMost ? left : kMost);
    if (groups == 1) {
      reduce_strip<L, kSums, 1>(rows, end, c, std::integral_constant<int, 1>(), add, finish);
    } else if (groups == kFew) {
      reduce_strip<L, kSums, kFew>(rows, end, c, std::integral_constant<int, kFew>(), add, finish);
    } else {
      reduce_strip<L, kSums, kMost>(rows, end, c, groups, add, finish);
    }
    c += groups * kLanes;
  }
}

}  // namespace xrun::ops
