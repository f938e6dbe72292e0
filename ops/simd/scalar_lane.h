// The lanes of a GPU: one thread computes one number, so the lane type of lane_math.h is `float`. Only nvcc reads this
// header; for other compilers the lanes are in simd.h. Operators are those of the language: kernels are compiled with
// -fmad=false -ftz=true, so each is one rounded instruction that flushes subnormal numbers, as on a processor
// (docs/internals/gpu_kernels.md).
#pragma once

#include <cstdint>

namespace xrun::ops {

#define XRUN_INLINE __device__ __forceinline__

inline constexpr int kLanes = 16;  // running sums of a row, as on a processor

// A bf16 number: the upper half of an f32.
struct Bf16 {
  uint16_t bits;
};

// The predicates of choose, which have these names in the header of the processor's instructions.
inline constexpr int _CMP_EQ_OQ = 0x00;
inline constexpr int _CMP_LT_OQ = 0x11;
inline constexpr int _CMP_LE_OQ = 0x12;
inline constexpr int _CMP_UNORD_Q = 0x03;
inline constexpr int _CMP_NEQ_UQ = 0x04;
inline constexpr int _CMP_GT_OQ = 0x1e;

template <int kWhat>
XRUN_INLINE bool holds(float a, float b) {
  if constexpr (kWhat == _CMP_EQ_OQ) {
    return a == b;
  } else if constexpr (kWhat == _CMP_LT_OQ) {
    return a < b;
  } else if constexpr (kWhat == _CMP_LE_OQ) {
    return a <= b;
  } else if constexpr (kWhat == _CMP_GT_OQ) {
    return a > b;
  } else if constexpr (kWhat == _CMP_NEQ_UQ) {
    return a != b;
  } else {
    static_assert(kWhat == _CMP_UNORD_Q);
    return a != a || b != b;
  }
}

// Returns `yes` if the comparison of a and b holds, else `no`.
template <int kWhat>
XRUN_INLINE float choose(float a, float b, float yes, float no) {
  return holds<kWhat>(a, b) ? yes : no;
}
XRUN_INLINE float if_less(float a, float b, float yes, float no) { return a < b ? yes : no; }
XRUN_INLINE float if_number(float x, float yes, float no) { return x == x ? yes : no; }
XRUN_INLINE float if_bit(int32_t x, int32_t bit, float yes, float no) { return (x & bit) != 0 ? yes : no; }

XRUN_INLINE float fill_like(float, float x) { return x; }
template <class L>
XRUN_INLINE L broadcast(float x) {
  return x;
}
XRUN_INLINE int32_t bits_of(float x) { return __float_as_int(x); }
XRUN_INLINE float from_bits(int32_t bits) { return __int_as_float(bits); }
XRUN_INLINE float converted(int32_t x) { return __int2float_rn(x); }
XRUN_INLINE float square_root(float x) { return __fsqrt_rn(x); }
XRUN_INLINE float floor_lanes(float x) { return floorf(x); }

// max(v, 0), and NaN if v is NaN.
XRUN_INLINE float rectify(float v) { return v < 0.0F ? 0.0F : v; }
XRUN_INLINE float max(float a, float b) { return b < a ? a : b; }
XRUN_INLINE float min(float a, float b) { return a < b ? a : b; }

// The nearest bf16, ties to even. NaN stays NaN.
XRUN_INLINE Bf16 to_bf16(float x) {
  const uint32_t u = __float_as_uint(x);
  const uint32_t rounded = x == x ? (u + 0x7FFFU + ((u >> 16) & 1U)) >> 16 : (u >> 16) | 0x40U;
  return Bf16{static_cast<uint16_t>(rounded)};
}
XRUN_INLINE float to_float(float x) { return x; }
XRUN_INLINE float to_float(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
XRUN_INLINE void assign(float& to, float x) { to = x; }
XRUN_INLINE void assign(Bf16& to, float x) { to = to_bf16(x); }

// Rounds to the type T, stored as f32.
template <typename T>
XRUN_INLINE float rounded_to(float v) {
  T narrow;
  assign(narrow, v);
  return to_float(narrow);
}

}  // namespace xrun::ops
