// Sums of squares in f64: sixteen running sums, one a lane, and a fixed tree over them. They have the same bits on
// every instruction set, since the square of an f32 is exact in f64 and lanes meet in the tree alone.
#pragma once

#include "ops/simd.h"

namespace xrun::ops {

class SquareSums {
 public:
  XRUN_INLINE void add(F16 values) {
    const D16 wide = __builtin_convertvector(values, D16);
    sums_ += wide * wide;
  }
  XRUN_INLINE double total() const {
    double lanes[kLanes];
    std::memcpy(lanes, &sums_, sizeof sums_);
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) {
        lanes[i] += lanes[i + width];
      }
    }
    return lanes[0];
  }

 private:
  using D16 [[gnu::vector_size(128)]] = double;
  D16 sums_{};
};

}  // namespace xrun::ops
