// Sums of squares in f64: sixteen running sums, one a lane, and a fixed tree over them. They have the same bits on
// every instruction set, since the square of an f32 is exact in f64 and lanes meet in the tree alone.
#pragma once

#include "ops/simd.h"

namespace xrun::ops {

template <class L>
class SquareSums {
 public:
  XRUN_INLINE void add(L values) {
    float lanes[kLanes];
    store(lanes, values);
    for (int i = 0; i < kLanes; i += 4) {
      const D4 wide = _mm256_cvtps_pd(_mm_loadu_ps(lanes + i));
      sums_[i / 4] += wide * wide;
    }
  }
  XRUN_INLINE double total() const {
    double lanes[kLanes];
    for (int i = 0; i < kLanes; i += 4) {
      _mm256_storeu_pd(lanes + i, sums_[i / 4]);
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) {
        lanes[i] += lanes[i + width];
      }
    }
    return lanes[0];
  }

 private:
  using D4 [[gnu::vector_size(32)]] = double;
  D4 sums_[kLanes / 4] = {};
};

}  // namespace xrun::ops
