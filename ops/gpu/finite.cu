// Finds numbers that are not finite: bit 0 of the flag word is set if there is one. The word stays in device memory, so
// a step reads it once. Constants are filled here, too.
#include "ops/gpu/grid.h"
#include "ops/simd/lane_math.h"

using namespace xrun::ops;

extern "C" __global__ void flag_not_finite_f32(const float* x, int64_t n, uint32_t* flags) {
  const int64_t i = thread_index();
  if (i < n && (__float_as_uint(x[i]) & 0x7F800000U) == 0x7F800000U) {
    atomicOr(flags, 1U);
  }
}
extern "C" __global__ void flag_not_finite_bf16(const Bf16* x, int64_t n, uint32_t* flags) {
  const int64_t i = thread_index();
  if (i < n && (x[i].bits & 0x7F80U) == 0x7F80U) {
    atomicOr(flags, 1U);
  }
}

extern "C" __global__ void fill_f32(float* y, int64_t n, float value) {
  const int64_t i = thread_index();
  if (i < n) {
    y[i] = value;
  }
}
