// Finds numbers that are not finite: bit 0 of the flag word is set if there is one, and likewise that of `own`, a word
// for these numbers alone; `own` may be null. The words stay in device memory, so a step reads them once. Constants are
// filled here, too.
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

namespace xrun::ops::gpu {

__device__ inline void flag_not_finite(bool is_finite, uint32_t* flags, uint32_t* own) {
  if (!is_finite) {
    atomicOr(flags, 1U);
    if (own != nullptr) {
      atomicOr(own, 1U);
    }
  }
}

}  // namespace xrun::ops::gpu

extern "C" __global__ void flag_not_finite_f32(const float* x, int64_t n, uint32_t* flags, uint32_t* own) {
  const int64_t i = thread_index();
  if (i < n) {
    xrun::ops::gpu::flag_not_finite((__float_as_uint(x[i]) & 0x7F800000U) != 0x7F800000U, flags, own);
  }
}
extern "C" __global__ void flag_not_finite_bf16(const Bf16* x, int64_t n, uint32_t* flags, uint32_t* own) {
  const int64_t i = thread_index();
  if (i < n) {
    xrun::ops::gpu::flag_not_finite((x[i].bits & 0x7F80U) != 0x7F80U, flags, own);
  }
}

extern "C" __global__ void fill_f32(float* y, int64_t n, float value) {
  const int64_t i = thread_index();
  if (i < n) {
    y[i] = value;
  }
}
