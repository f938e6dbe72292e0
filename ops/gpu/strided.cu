// Copies between two layouts of a tensor with up to six dimensions, and zeros of two bytes. One thread an element.
// Values do not change.
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

// Sizes of the five inner dimensions, the innermost first, and the steps of all six in both tensors.
struct Axes {
  int64_t sizes[5];
  int64_t from[6];
  int64_t to[6];
};

template <typename T>
__device__ void copy(const T* from, T* to, int64_t n, const Axes& axes) {
  const int64_t i = thread_index();
  if (i >= n) {
    return;
  }
  int64_t rest = i, source = 0, target = 0;
#pragma unroll
  for (int d = 0; d < 5; ++d) {
    const int64_t index = rest % axes.sizes[d];
    rest /= axes.sizes[d];
    source += index * axes.from[d];
    target += index * axes.to[d];
  }
  to[target + rest * axes.to[5]] = from[source + rest * axes.from[5]];
}

}  // namespace xrun::ops

// `n` counts elements; d0 is the size of the innermost dimension, f0 and t0 its steps in elements.
extern "C" __global__ void copy_strided_32(const uint32_t* from, uint32_t* to, int64_t n, int64_t d0, int64_t d1,
                                           int64_t d2, int64_t d3, int64_t d4, int64_t f0, int64_t f1, int64_t f2,
                                           int64_t f3, int64_t f4, int64_t f5, int64_t t0, int64_t t1, int64_t t2,
                                           int64_t t3, int64_t t4, int64_t t5) {
  copy(from, to, n, {{d0, d1, d2, d3, d4}, {f0, f1, f2, f3, f4, f5}, {t0, t1, t2, t3, t4, t5}});
}
extern "C" __global__ void copy_strided_16(const uint16_t* from, uint16_t* to, int64_t n, int64_t d0, int64_t d1,
                                           int64_t d2, int64_t d3, int64_t d4, int64_t f0, int64_t f1, int64_t f2,
                                           int64_t f3, int64_t f4, int64_t f5, int64_t t0, int64_t t1, int64_t t2,
                                           int64_t t3, int64_t t4, int64_t t5) {
  copy(from, to, n, {{d0, d1, d2, d3, d4}, {f0, f1, f2, f3, f4, f5}, {t0, t1, t2, t3, t4, t5}});
}

extern "C" __global__ void zeros_16(uint16_t* y, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    y[i] = 0;
  }
}
