// Sums over a contiguous run of f32 in a fixed order: sixteen running sums, one per lane, which are then added in a
// tree.
#pragma once

#include "ops/simd/simd.h"

namespace xrun::ops {

// Pads n numbers to a multiple of sixteen with the value `with`, which must not change the result. REQUIRES: the array
// has space for them.
XRUN_INLINE void pad_run(float* v, int64_t n, float with) {
  for (int64_t i = n; i % kLanes != 0; ++i) {
    v[i] = with;
  }
}

// The sum of padded numbers; `dot_of` is the dot product of two padded arrays.
template <class L>
XRUN_INLINE float sum_of(const float* v, int64_t n) {
  L sum{};
  for (int64_t i = 0; i < n; i += kLanes) {
    sum += load<L>(v + i);
  }
  return sum_lanes(sum);
}

template <class L>
XRUN_INLINE float dot_of(const float* a, const float* b, int64_t n) {
  L sum{};
  for (int64_t i = 0; i < n; i += kLanes) {
    sum += load<L>(a + i) * load<L>(b + i);
  }
  return sum_lanes(sum);
}

}  // namespace xrun::ops
