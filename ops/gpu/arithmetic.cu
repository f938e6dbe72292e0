// Arithmetic of tensors, element by element, and with one number a channel. Channels come last in memory. One thread an
// element; for bf16 in f32, rounded once. All kernels have the bits of the processor.
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops {

struct Add {
  __device__ static float of(float a, float b) { return a + b; }
};
struct Subtract {
  __device__ static float of(float a, float b) { return a - b; }
};
struct Multiply {
  __device__ static float of(float a, float b) { return a * b; }
};

template <class Operation, typename T>
__device__ void combine(const T* a, const T* b, T* y, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    assign(y[i], Operation::of(to_float(a[i]), to_float(b[i])));
  }
}

template <class Operation, typename T>
__device__ void combine_channels(const T* x, const float* channel, T* y, int64_t n, int32_t channels) {
  const int64_t i = thread_index();
  if (i < n) {
    assign(y[i], Operation::of(to_float(x[i]), channel[i % channels]));
  }
}

template <typename T>
__device__ void scale_and_shift(const T* x, T* y, int64_t n, float scale, float shift) {
  const int64_t i = thread_index();
  if (i < n) {
    assign(y[i], to_float(x[i]) * scale + shift);
  }
}

}  // namespace xrun::ops

extern "C" __global__ void add_f32(const float* a, const float* b, float* y, int64_t n) { combine<Add>(a, b, y, n); }
extern "C" __global__ void add_bf16(const Bf16* a, const Bf16* b, Bf16* y, int64_t n) { combine<Add>(a, b, y, n); }
extern "C" __global__ void sub_f32(const float* a, const float* b, float* y, int64_t n) {
  combine<Subtract>(a, b, y, n);
}
extern "C" __global__ void sub_bf16(const Bf16* a, const Bf16* b, Bf16* y, int64_t n) { combine<Subtract>(a, b, y, n); }
extern "C" __global__ void mul_f32(const float* a, const float* b, float* y, int64_t n) {
  combine<Multiply>(a, b, y, n);
}
extern "C" __global__ void mul_bf16(const Bf16* a, const Bf16* b, Bf16* y, int64_t n) { combine<Multiply>(a, b, y, n); }

// y [rows, channels] = x + bias. `n` counts elements.
extern "C" __global__ void add_bias_f32(const float* x, const float* bias, float* y, int64_t n, int32_t channels) {
  combine_channels<Add>(x, bias, y, n, channels);
}
extern "C" __global__ void add_bias_bf16(const Bf16* x, const float* bias, Bf16* y, int64_t n, int32_t channels) {
  combine_channels<Add>(x, bias, y, n, channels);
}

extern "C" __global__ void scale_shift_f32(const float* x, float* y, int64_t n, float scale, float shift) {
  scale_and_shift(x, y, n, scale, shift);
}
extern "C" __global__ void scale_shift_bf16(const Bf16* x, Bf16* y, int64_t n, float scale, float shift) {
  scale_and_shift(x, y, n, scale, shift);
}
