// Sums of squares in f64: sixteen running sums, one a lane, and a fixed tree over them. They have the same bits on
// every instruction set, since the square of an f32 is exact in f64 and lanes meet in the tree alone.
#pragma once

#include "ops/simd.h"

namespace xrun::ops {

// The running sums, between two runs of numbers.
struct SquareLanes {
  double lanes[kLanes] = {};
};

template <class L>
class SquareSums {
 public:
  SquareSums() = default;
  // Goes on with sums that `stop` gave.
  XRUN_INLINE explicit SquareSums(const SquareLanes& from) {
    for (int i = 0; i < kLanes; i += 4) {
      sums_[i / 4] = _mm256_loadu_pd(from.lanes + i);
    }
  }
  XRUN_INLINE void add(L values) {
    float lanes[kLanes];
    store(lanes, values);
    for (int i = 0; i < kLanes; i += 4) {
      const D4 wide = _mm256_cvtps_pd(_mm_loadu_ps(lanes + i));
      sums_[i / 4] += wide * wide;
    }
  }
  XRUN_INLINE void stop(SquareLanes& to) const {
    for (int i = 0; i < kLanes; i += 4) {
      _mm256_storeu_pd(to.lanes + i, sums_[i / 4]);
    }
  }
  XRUN_INLINE double total() const {
    SquareLanes end;
    stop(end);
    return total_of(end);
  }
  static double total_of(SquareLanes end) {
    double* const lanes = end.lanes;
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
