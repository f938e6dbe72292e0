// Sums of squares in f64: sixteen running sums, one per lane, which are added in a fixed tree. They have the same bits
// on every instruction set, since the square of an f32 is exact in f64 and lanes mix only in the tree.
#pragma once

#include "ops/simd/simd.h"

namespace xrun::ops {

// The running sums; they continue from one array of numbers to the next.
struct SquareLanes {
  double lanes[kLanes] = {};
};

// Adds the running sums in a fixed tree.
inline double total_of(SquareLanes end) {
  double* const lanes = end.lanes;
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      lanes[i] += lanes[i + width];
    }
  }
  return lanes[0];
}

// Adds the squares of n numbers to the running sums: element i to sum i % 16. A body of run_for.
struct SquaresBody {
  template <class L>
  XRUN_INLINE static void run(const float* values, int64_t n, SquareLanes* lanes) {
    using D4 [[gnu::vector_size(32)]] = double;
    D4 sums[kLanes / 4];
    std::memcpy(&sums, lanes->lanes, sizeof sums);
    for (int64_t i = 0; i < n; i += kLanes) {
      const F8x2 some = load_upto<F8x2>(values + i, n - i);
      const F8 halves[] = {some.low, some.high};
      for (int half = 0; half < 2; ++half) {
        const D4 low = _mm256_cvtps_pd(_mm256_castps256_ps128(halves[half]));
        const D4 high = _mm256_cvtps_pd(_mm256_extractf128_ps(halves[half], 1));
        sums[2 * half] += low * low;
        sums[2 * half + 1] += high * high;
      }
    }
    std::memcpy(lanes->lanes, &sums, sizeof sums);
  }
};

}  // namespace xrun::ops
