// Depthwise convolutions of images [N, height, width, channels]: each channel has a window of its own
// (ops/conv/conv.cpp). Weights are [channels, cells]. A thread computes an element of y or dx by one chain of fused
// multiply-adds in f32, over the cells of the window row by row.
//
// A weight's gradient sums the positions of each image in ascending order, adds these sums image by image to the sum of
// a row block, and these to the gradient. So it has the bits of the processor (ops/conv/depthwise_gradient.h), whatever
// the number of row blocks in a launch. An image has fewer than 2^31 positions.
#include "ops/gpu/column_sums.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

struct Size {
  int h, w;
};
struct Window {
  int channels, height, width, out_height, out_width;
  Size k, stride, pad, dilation;
};

// The index of an element, from the coordinates in a tensor [N, height, width, channels].
struct Place {
  int64_t image;
  int y, x, channel;

  __device__ static Place of(int64_t i, int height, int width, int channels) {
    const int64_t position = i / channels, line = position / width;
    return {line / height, static_cast<int>(line % height), static_cast<int>(position % width),
            static_cast<int>(i % channels)};
  }
};

// `bias` [channels] may be null.
template <typename T>
__device__ void depthwise(const Window& w, const T* x, const T* weight, const float* bias, T* y, int64_t n) {
  const int64_t i = thread_index();
  if (i >= n) {
    return;
  }
  const Place at = Place::of(i, w.out_height, w.out_width, w.channels);
  const T* const image = x + at.image * w.height * w.width * w.channels + at.channel;
  const T* const cells = weight + static_cast<int64_t>(at.channel) * w.k.h * w.k.w;
  float sum = 0;
  for (int u = 0; u < w.k.h; ++u) {
    const int down = at.y * w.stride.h - w.pad.h + u * w.dilation.h;
    for (int v = 0; v < w.k.w && down >= 0 && down < w.height; ++v) {
      const int right = at.x * w.stride.w - w.pad.w + v * w.dilation.w;
      if (right >= 0 && right < w.width) {
        sum = __fmaf_rn(to_float(image[(static_cast<int64_t>(down) * w.width + right) * w.channels]),
                        to_float(cells[u * w.k.w + v]), sum);
      }
    }
  }
  assign(y[i], bias != nullptr ? sum + bias[at.channel] : sum);
}

template <typename T>
__device__ void depthwise_dx(const Window& w, const T* dy, const T* weight, T* dx, int64_t n) {
  const int64_t i = thread_index();
  if (i >= n) {
    return;
  }
  const Place at = Place::of(i, w.height, w.width, w.channels);
  const T* const image = dy + at.image * w.out_height * w.out_width * w.channels + at.channel;
  const T* const cells = weight + static_cast<int64_t>(at.channel) * w.k.h * w.k.w;
  float sum = 0;
  for (int u = 0; u < w.k.h; ++u) {
    const int down = at.y + w.pad.h - u * w.dilation.h;
    if (down < 0 || down % w.stride.h != 0 || down / w.stride.h >= w.out_height) {
      continue;
    }
    for (int v = 0; v < w.k.w; ++v) {
      const int right = at.x + w.pad.w - v * w.dilation.w;
      if (right >= 0 && right % w.stride.w == 0 && right / w.stride.w < w.out_width) {
        const int64_t position = static_cast<int64_t>(down / w.stride.h) * w.out_width + right / w.stride.w;
        sum = __fmaf_rn(to_float(image[position * w.channels]), to_float(cells[u * w.k.w + v]), sum);
      }
    }
  }
  assign(dx[i], sum);
}

// The sum of an image for a channel and a cell (u, v).
template <typename T>
__device__ float sum_of_image(const Window& w, const T* x, const T* dy, int u, int v) {
  float sum = 0;
  for (int i = 0; i < w.out_height; ++i) {
    const int down = i * w.stride.h - w.pad.h + u * w.dilation.h;
    for (int j = 0; j < w.out_width && down >= 0 && down < w.height; ++j) {
      const int right = j * w.stride.w - w.pad.w + v * w.dilation.w;
      if (right >= 0 && right < w.width) {
        sum += to_float(x[(static_cast<int64_t>(down) * w.width + right) * w.channels]) *
               to_float(dy[(static_cast<int64_t>(i) * w.out_width + j) * w.channels]);
      }
    }
  }
  return sum;
}

// Blocks of 32 x 8 threads have 32 channels and a cell, and eight images at a time.
template <typename T>
__device__ void depthwise_dw(const Window& w, const T* x, const T* dy, float* dw, int64_t images, int64_t rows,
                             int64_t stride) {
  __shared__ float sums[kRunsOfBlock][kColumnsOfBlock];
  const int cells = w.k.h * w.k.w, cell = static_cast<int>(blockIdx.x) % cells;
  const int channel = static_cast<int>(blockIdx.x) / cells * kColumnsOfBlock + static_cast<int>(threadIdx.x);
  float* const to = dw + blockIdx.y * stride + static_cast<int64_t>(channel) * cells + cell;
  for (int64_t first = blockIdx.y * rows; first < images; first += rows) {
    const int64_t end = first + rows < images ? first + rows : images;
    float total = 0;
    for (int64_t run = first; run < end; run += kRunsOfBlock) {
      const int64_t image = run + threadIdx.y;
      if (channel < w.channels && image < end) {
        sums[threadIdx.y][threadIdx.x] =
            sum_of_image(w, x + image * w.height * w.width * w.channels + channel,
                         dy + image * w.out_height * w.out_width * w.channels + channel, cell / w.k.w, cell % w.k.w);
      }
      __syncthreads();
      if (channel < w.channels && threadIdx.y == 0) {
        for (int i = 0; i < kRunsOfBlock && run + i < end; ++i) {
          total += sums[i][threadIdx.x];
        }
      }
      __syncthreads();
    }
    if (channel < w.channels && threadIdx.y == 0) {
      *to = stride == 0 ? *to + total : total;
    }
    if (stride != 0) {
      break;
    }
  }
}

__device__ inline Window window_of(int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                   int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                   int32_t pad_h, int32_t pad_w, int32_t dilation_h, int32_t dilation_w) {
  return {channels, height,   width, out_height, out_width,  k_h,       k_w,
          stride_h, stride_w, pad_h, pad_w,      dilation_h, dilation_w};
}

}  // namespace xrun::ops

// Grids of one thread for each of the n elements of y.
extern "C" __global__ void depthwise_f32(const float* x, const float* weight, const float* bias, float* y, int64_t n,
                                         int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                         int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h,
                                         int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                                         int32_t dilation_w) {
  depthwise(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                      dilation_h, dilation_w),
            x, weight, bias, y, n);
}
extern "C" __global__ void depthwise_bf16(const Bf16* x, const Bf16* weight, const float* bias, Bf16* y, int64_t n,
                                          int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                          int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h,
                                          int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                                          int32_t dilation_w) {
  depthwise(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                      dilation_h, dilation_w),
            x, weight, bias, y, n);
}

// Grids of one thread for each of the n elements of dx.
extern "C" __global__ void depthwise_dx_f32(const float* dy, const float* weight, float* dx, int64_t n,
                                            int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                            int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h,
                                            int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                                            int32_t dilation_w) {
  depthwise_dx(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                         dilation_h, dilation_w),
               dy, weight, dx, n);
}
extern "C" __global__ void depthwise_dx_bf16(const Bf16* dy, const Bf16* weight, Bf16* dx, int64_t n, int32_t channels,
                                             int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                                             int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                             int32_t pad_h, int32_t pad_w, int32_t dilation_h, int32_t dilation_w) {
  depthwise_dx(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                         dilation_h, dilation_w),
               dy, weight, dx, n);
}

// Adds the gradient to dw [channels, cells], if `stride` is 0. As many blocks (x) as cells for each 32 channels. Row
// blocks have `rows` images; the last may have fewer. With another stride, a launch of as many blocks (y) as row blocks
// writes the sum of row block b to dw + b * stride, and add_parts_f32 (column_sums.cu) adds these sums to the gradient,
// with the same bits.
extern "C" __global__ void depthwise_dw_f32(const float* x, const float* dy, float* dw, int64_t images,
                                            int32_t channels, int32_t height, int32_t width, int32_t out_height,
                                            int32_t out_width, int32_t k_h, int32_t k_w, int32_t stride_h,
                                            int32_t stride_w, int32_t pad_h, int32_t pad_w, int32_t dilation_h,
                                            int32_t dilation_w, int64_t rows, int64_t stride) {
  depthwise_dw(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                         dilation_h, dilation_w),
               x, dy, dw, images, rows, stride);
}
extern "C" __global__ void depthwise_dw_bf16(const Bf16* x, const Bf16* dy, float* dw, int64_t images, int32_t channels,
                                             int32_t height, int32_t width, int32_t out_height, int32_t out_width,
                                             int32_t k_h, int32_t k_w, int32_t stride_h, int32_t stride_w,
                                             int32_t pad_h, int32_t pad_w, int32_t dilation_h, int32_t dilation_w,
                                             int64_t rows, int64_t stride) {
  depthwise_dw(window_of(channels, height, width, out_height, out_width, k_h, k_w, stride_h, stride_w, pad_h, pad_w,
                         dilation_h, dilation_w),
               x, dy, dw, images, rows, stride);
}
