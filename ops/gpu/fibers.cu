// Reductions along one dimension of a tensor [outer, size, inner] to [outer, inner] (ops/reduce/reduce.cpp). Means and
// sums have sixteen threads for each result, maxima one. The kernels have the bits of the processor.
#include "ops/gpu/row_sums.h"

using namespace xrun::ops;

namespace xrun::ops {

// The sum of a fiber in all of its threads.
template <typename T>
__device__ float sum_of_fiber(const RowThread& at, const T* x, int64_t fibers, int64_t size, int64_t inner) {
  float running = 0;
  if (at.row < fibers) {
    const T* const fiber = x + at.row / inner * size * inner + at.row % inner;
    for (int64_t i = at.lane; i < size; i += kLanes) {
      running += to_float(fiber[i * inner]);
    }
  }
  return sum_of_row(running);
}

template <bool kMean, typename T>
__device__ void sum_fibers(const T* x, T* y, int64_t fibers, int64_t size, int64_t inner) {
  const RowThread at = RowThread::here();
  const float sum = sum_of_fiber(at, x, fibers, size, inner);
  if (at.row < fibers && at.lane == 0) {
    assign(y[at.row], kMean ? sum / static_cast<float>(size) : sum);
  }
}

// The largest element of a fiber, the first one of equal elements; NaN if one of them is NaN.
template <typename T>
__device__ float largest(const T* fiber, int64_t size, int64_t inner) {
  float best = to_float(fiber[0]);
  for (int64_t i = 1; i < size; ++i) {
    const float v = to_float(fiber[i * inner]);
    best = v <= best || best != best ? best : v;
  }
  return best;
}

template <typename T>
__device__ void max_fibers(const T* x, T* y, int64_t fibers, int64_t size, int64_t inner) {
  const int64_t i = thread_index();
  if (i < fibers) {
    assign(y[i], largest(x + i / inner * size * inner + i % inner, size, inner));
  }
}

// dx is dy at the first of the largest elements, else 0.
template <typename T>
__device__ void max_fibers_grad(const T* x, const T* dy, T* dx, int64_t fibers, int64_t size, int64_t inner) {
  const int64_t i = thread_index();
  if (i >= fibers) {
    return;
  }
  const int64_t first = i / inner * size * inner + i % inner;
  const float top = largest(x + first, size, inner);
  bool given = false;
  for (int64_t e = 0; e < size; ++e) {
    const float v = to_float(x[first + e * inner]);
    const bool here = !given && (v == top || v != v);
    given = given || here;
    assign(dx[first + e * inner], here ? to_float(dy[i]) : 0.0F);
  }
}

}  // namespace xrun::ops

extern "C" __global__ void fiber_mean_f32(const float* x, float* y, int64_t fibers, int64_t size, int64_t inner) {
  sum_fibers<true>(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_mean_bf16(const Bf16* x, Bf16* y, int64_t fibers, int64_t size, int64_t inner) {
  sum_fibers<true>(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_sum_f32(const float* x, float* y, int64_t fibers, int64_t size, int64_t inner) {
  sum_fibers<false>(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_sum_bf16(const Bf16* x, Bf16* y, int64_t fibers, int64_t size, int64_t inner) {
  sum_fibers<false>(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_max_f32(const float* x, float* y, int64_t fibers, int64_t size, int64_t inner) {
  max_fibers(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_max_bf16(const Bf16* x, Bf16* y, int64_t fibers, int64_t size, int64_t inner) {
  max_fibers(x, y, fibers, size, inner);
}
extern "C" __global__ void fiber_max_grad_f32(const float* x, const float* dy, float* dx, int64_t fibers, int64_t size,
                                              int64_t inner) {
  max_fibers_grad(x, dy, dx, fibers, size, inner);
}
extern "C" __global__ void fiber_max_grad_bf16(const Bf16* x, const Bf16* dy, Bf16* dx, int64_t fibers, int64_t size,
                                               int64_t inner) {
  max_fibers_grad(x, dy, dx, fibers, size, inner);
}
