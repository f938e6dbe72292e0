// Pooling of images [N, height, width, channels] (ops/conv/pool.cpp, ops/conv/global_pool.cpp), one thread an element
// of the result. In the gradient, a thread has one cell and adds the shares of its windows in ascending order. The
// kernels have the bits of the processor.
#include "ops/conv/pool_formulas.h"
#include "ops/gpu/column_sums.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

struct Size {
  int64_t h, w;
};
struct Window {
  int64_t channels, height, width, out_height, out_width;
  Size k, stride, pad;
};

// An element of a tensor [N, height, width, channels].
struct Place {
  int64_t n, i, j, c;

  __device__ static Place of(int64_t index, int64_t height, int64_t width, int64_t channels) {
    const int64_t position = index / channels;
    return {position / width / height, position / width % height, position % width, index % channels};
  }
};

template <bool kMax, typename T>
__device__ void pool(const Window& w, const T* x, T* y, int64_t n) {
  const int64_t index = thread_index();
  if (index >= n) {
    return;
  }
  const Place at = Place::of(index, w.out_height, w.out_width, w.channels);
  const T* const image = x + at.n * w.height * w.width * w.channels + at.c;
  const Cells cells = Cells::of(w, at.i, at.j);
  float value = kMax ? -INFINITY : 0.0F;
  for (int64_t u = cells.top; u < cells.bottom; ++u) {
    for (int64_t v = cells.left; v < cells.right; ++v) {
      const float cell = to_float(image[(u * w.width + v) * w.channels]);
      value = kMax ? unless_beaten(cell, value, value, cell) : value + cell;
    }
  }
  assign(y[index], kMax ? value : value / cells.count());
}

// The position of the largest cell of a window.
template <typename T>
__device__ int64_t winner_of(const Window& w, const Cells& cells, const T* image) {
  float value = -INFINITY, winner = 0;
  for (int64_t u = cells.top; u < cells.bottom; ++u) {
    for (int64_t v = cells.left; v < cells.right; ++v) {
      const float cell = to_float(image[(u * w.width + v) * w.channels]);
      winner = unless_beaten(cell, value, winner, static_cast<float>(u * w.width + v));
      value = unless_beaten(cell, value, value, cell);
    }
  }
  return static_cast<int64_t>(winner);
}

// dx [N, height, width, channels] from dy; `x` is read only if kMax.
template <bool kMax, typename T>
__device__ void pool_grad(const Window& w, const T* x, const T* dy, T* dx, int64_t n) {
  const int64_t index = thread_index();
  if (index >= n) {
    return;
  }
  const Place at = Place::of(index, w.height, w.width, w.channels);
  const T* const image = x + (kMax ? at.n * w.height * w.width * w.channels + at.c : 0);
  const T* const grad = dy + at.n * w.out_height * w.out_width * w.channels + at.c;
  float sum = 0;
  for (int64_t i = 0; i < w.out_height; ++i) {
    const Cells rows = Cells::of(w, i, 0);
    if (at.i < rows.top || at.i >= rows.bottom) {
      continue;
    }
    for (int64_t j = 0; j < w.out_width; ++j) {
      const Cells cells = Cells::of(w, i, j);
      if (at.j < cells.left || at.j >= cells.right) {
        continue;
      }
      const float share = to_float(grad[(i * w.out_width + j) * w.channels]);
      if constexpr (kMax) {
        sum += winner_of(w, cells, image) == at.i * w.width + at.j ? share : 0.0F;
      } else {
        sum += share / cells.count();
      }
    }
  }
  assign(dx[index], sum);
}

__device__ inline Window window_of(int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                   int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                   int32_t pad_h, int32_t pad_w) {
  return {channels, height, width, out_height, out_width, {k_h, k_w}, {stride_h, stride_w}, {pad_h, pad_w}};
}

// The mean of all positions. Blocks of 32 x 8 threads, for 32 channels (x) of a sample (y).
template <typename T>
__device__ void global_mean(const T* x, T* y, int64_t positions, int64_t channels) {
  const T* const sample = x + blockIdx.y * positions * channels;
  const int64_t out = blockIdx.y * channels;
  reduce_columns<1>(
      positions, channels, [=](int64_t r, int64_t c, float* acc) { acc[0] += to_float(sample[r * channels + c]); },
      [=](int64_t c, const double* totals) {
        assign(y[out + c], static_cast<float>(totals[0]) * (1.0F / static_cast<float>(positions)));
      });
}

template <typename T>
__device__ void spread(const T* dy, T* dx, int64_t n, int64_t positions, int64_t channels) {
  const int64_t i = thread_index();
  if (i < n) {
    const int64_t sample = i / channels / positions;
    assign(dx[i], to_float(dy[sample * channels + i % channels]) * (1.0F / static_cast<float>(positions)));
  }
}

}  // namespace xrun::ops

extern "C" __global__ void max_pool_f32(const float* x, float* y, int64_t n, int32_t channels, int32_t height,
                                        int32_t width, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                                        int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w) {
  pool<true>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), x,
             y, n);
}
extern "C" __global__ void max_pool_bf16(const Bf16* x, Bf16* y, int64_t n, int32_t channels, int32_t height,
                                         int32_t width, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                                         int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w) {
  pool<true>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), x,
             y, n);
}
extern "C" __global__ void avg_pool_f32(const float* x, float* y, int64_t n, int32_t channels, int32_t height,
                                        int32_t width, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                                        int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w) {
  pool<false>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), x,
              y, n);
}
extern "C" __global__ void avg_pool_bf16(const Bf16* x, Bf16* y, int64_t n, int32_t channels, int32_t height,
                                         int32_t width, int32_t out_height, int32_t out_width, int32_t k_h, int32_t k_w,
                                         int32_t stride_h, int32_t stride_w, int32_t pad_h, int32_t pad_w) {
  pool<false>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), x,
              y, n);
}
extern "C" __global__ void max_pool_grad_f32(const float* x, const float* dy, float* dx, int64_t n, int32_t channels,
                                             int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                                             int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                             int32_t pad_h, int32_t pad_w) {
  pool_grad<true>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w),
                  x, dy, dx, n);
}
extern "C" __global__ void max_pool_grad_bf16(const Bf16* x, const Bf16* dy, Bf16* dx, int64_t n, int32_t channels,
                                              int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                                              int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                              int32_t pad_h, int32_t pad_w) {
  pool_grad<true>(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w),
                  x, dy, dx, n);
}
extern "C" __global__ void avg_pool_grad_f32(const float* dy, float* dx, int64_t n, int32_t channels, int32_t height,
                                             int32_t width, int32_t out_height, int32_t out_width, int32_t k_h,
                                             int32_t k_w, int32_t stride_h, int32_t stride_w, int32_t pad_h,
                                             int32_t pad_w) {
  pool_grad<false, float>(
      window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), nullptr,
      dy, dx, n);
}
extern "C" __global__ void avg_pool_grad_bf16(const Bf16* dy, Bf16* dx, int64_t n, int32_t channels, int32_t height,
                                              int32_t width, int32_t out_height, int32_t out_width, int32_t k_h,
                                              int32_t k_w, int32_t stride_h, int32_t stride_w, int32_t pad_h,
                                              int32_t pad_w) {
  pool_grad<false, Bf16>(
      window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w), nullptr,
      dy, dx, n);
}

extern "C" __global__ void global_avg_pool_f32(const float* x, float* y, int64_t positions, int64_t channels) {
  global_mean(x, y, positions, channels);
}
extern "C" __global__ void global_avg_pool_bf16(const Bf16* x, Bf16* y, int64_t positions, int64_t channels) {
  global_mean(x, y, positions, channels);
}
extern "C" __global__ void global_avg_pool_grad_f32(const float* dy, float* dx, int64_t n, int64_t positions,
                                                    int64_t channels) {
  spread(dy, dx, n, positions, channels);
}
extern "C" __global__ void global_avg_pool_grad_bf16(const Bf16* dy, Bf16* dx, int64_t n, int64_t positions,
                                                     int64_t channels) {
  spread(dy, dx, n, positions, channels);
}
