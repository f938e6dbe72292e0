// Sums down the columns of row-major matrices [rows, columns] in a fixed order: blocks of 64 rows in f32, blocks in
// f64.
#pragma once

#include <cstdint>

#include "ops/isa.h"
#include "ops/simd.h"

namespace xrun::ops {

// sums[c] += sum over r of x[r, c].
void add_column_sums(Isa isa, const float* x, int64_t rows, int64_t columns, float* sums);
void add_column_sums(Isa isa, const Bf16* x, int64_t rows, int64_t columns, float* sums);

inline constexpr int64_t kSumBlock = 64;  // rows whose f32 sum is rounded 64 times at most

// Walks the columns by groups of sixteen lanes: `Terms::at(r, c, n, sums)` adds the terms of row r, columns c .. c + n
// - 1 (n <= 16) to kSums lane groups; `finish(c, n, totals)` gets the f64 totals [kSums][16].
template <int kSums, typename Add, typename Finish>
XRUN_INLINE void reduce_columns(int64_t rows, int64_t columns, const Add& add, const Finish& finish) {
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t n = columns - c < kLanes ? columns - c : kLanes;
    double totals[kSums][kLanes] = {};
    for (int64_t begin = 0; begin < rows; begin += kSumBlock) {
      const int64_t end = begin + kSumBlock < rows ? begin + kSumBlock : rows;
      F16 sums[kSums] = {};
      for (int64_t r = begin; r < end; ++r) {
        add(r, c, n, sums);
      }
      for (int s = 0; s < kSums; ++s) {
        float lanes[kLanes];
        store(lanes, sums[s]);
        for (int i = 0; i < kLanes; ++i) {
          totals[s][i] += static_cast<double>(lanes[i]);
        }
      }
    }
    finish(c, n, totals);
  }
}

}  // namespace xrun::ops
