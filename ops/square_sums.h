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
  XRUN_INLINE explicit SquareSums(const SquareLanes& from) { std::memcpy(&sums_, from.lanes, sizeof sums_); }
  XRUN_INLINE void add(L values) {
    if constexpr (std::is_same_v<L, F16>) {
      const F8x2 halves = halves_of(values);
      const D8 low = __builtin_convertvector(halves.low, D8);
      const D8 high = __builtin_convertvector(halves.high, D8);
      sums_[0] += low * low;
      sums_[1] += high * high;
    } else {
      const F8 halves[] = {values.low, values.high};
      for (int i = 0; i < 2; ++i) {
        const D4 low = _mm256_cvtps_pd(_mm256_castps256_ps128(halves[i]));
        const D4 high = _mm256_cvtps_pd(_mm256_extractf128_ps(halves[i], 1));
        sums_[2 * i] += low * low;
        sums_[2 * i + 1] += high * high;
      }
    }
  }
  XRUN_INLINE void stop(SquareLanes& to) const { std::memcpy(to.lanes, &sums_, sizeof sums_); }
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
  using D8 [[gnu::vector_size(64)]] = double;
  using Sums = std::conditional_t<std::is_same_v<L, F16>, D8, D4>;
  Sums sums_[kLanes * sizeof(double) / sizeof(Sums)] = {};
};

}  // namespace xrun::ops
