// acos, cos and sin in f64, within one unit of the last place, with the same bits on processors and GPUs
// (ops/simd/f64_math.h).
// Source of the polynomials: Sun Microsystems, fdlibm (e_acos.c, k_cos.c, k_sin.c).
// Tests: tests/ops/gpu/f64_math_test.cpp
#pragma once

#include "ops/simd/f64_math.h"

namespace xrun::ops {

inline constexpr double kPi64 = 3.141592653589793116;
inline constexpr double kHalfPiHigh = 1.570796326794896558;     // pi / 2 in two parts
inline constexpr double kHalfPiLow = 6.123233995736766036e-17;  // the rest, to 53 bits

// (asin(s) - s) / s as a function of s^2, for |s| <= 1/2.
XRUN_INLINE double asin_part64(double z) {
  double p = std::fma(z, 3.47933107596021167570e-05, 7.91534994289814532176e-04);
  p = std::fma(z, p, -4.00555345006794114027e-02);
  p = std::fma(z, p, 2.01212532134862925881e-01);
  p = std::fma(z, p, -3.25565818622400915405e-01);
  p = std::fma(z, p, 1.66666666666666657415e-01);
  double q = std::fma(z, 7.70381505559019352791e-02, -6.88283971605453293030e-01);
  q = std::fma(z, q, 2.02094576023350569471e+00);
  q = std::fma(z, q, -2.40339491173441421878e+00);
  q = std::fma(z, q, 1.0);
  return z * p / q;
}

// The angle in 0 .. pi whose cosine is x; NaN outside of -1 .. 1.
XRUN_INLINE double acos64(double x) {
  const double size = x < 0 ? -x : x;
  if (size <= 0.5) {
    return kHalfPiHigh - (x - std::fma(-x, asin_part64(x * x), kHalfPiLow));
  }
  if (size == 1) {
    return x < 0 ? kPi64 : 0;
  }
  // acos(size) = 2 asin(s) with s^2 = (1 - size) / 2, which is exact; `rest` is what the rounding of s left out.
  const double z = (1 - size) * 0.5;
  const double s = std::sqrt(z);
  const double part = asin_part64(z);
  const double rest = std::fma(-s, s, z) / (s + s);
  if (x < 0) {
    return kPi64 - 2 * (s + (std::fma(part, s, rest) - kHalfPiLow));
  }
  return 2 * (s + std::fma(part, s, rest));
}

// An angle minus a multiple of pi / 2: the rest as a sum of two numbers, and the multiple modulo 4.
struct Quadrant64 {
  double high;
  double low;
  uint32_t quarter;
};

// REQUIRES: |x| <= 10^5, or NaN.
XRUN_INLINE Quadrant64 quadrant_of64(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
  const double shifted = std::fma(x, 0.63661977236758138243, kMagic);
  const double n = shifted - kMagic;
  const double near = std::fma(-n, kHalfPiHigh, x);  // exact
  const double moved = n * kHalfPiLow;
  const double high = near - moved;
  const double low = ((near - high) - moved) - std::fma(n, kHalfPiLow, -moved);
  return {high, low, static_cast<uint32_t>(__builtin_bit_cast(uint64_t, shifted)) & 3U};
}

// sin(x + low) and cos(x + low) for |x| <= pi / 4.
XRUN_INLINE double sin_part64(double x, double low) {
  const double z = x * x, cube = z * x;
  double p = std::fma(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
  p = std::fma(z, p, 2.75573137070700676789e-06);
  p = std::fma(z, p, -1.98412698298579493134e-04);
  p = std::fma(z, p, 8.33333333332248946124e-03);
  return x - (std::fma(z, std::fma(0.5, low, -(cube * p)), -low) - cube * -1.66666666666666324348e-01);
}
XRUN_INLINE double cos_part64(double x, double low) {
  const double z = x * x;
  double p = std::fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
  p = std::fma(z, p, -2.75573143513906633035e-07);
  p = std::fma(z, p, 2.48015872894767294178e-05);
  p = std::fma(z, p, -1.38888888888741095749e-03);
  p = std::fma(z, p, 4.16666666666666019037e-02);
  const double half = 0.5 * z, one = 1 - half;
  return one + (((1 - one) - half) + std::fma(z, z * p, -(x * low)));
}

XRUN_INLINE double sin64(double x) {
  const Quadrant64 q = quadrant_of64(x);
  const double y = (q.quarter & 1U) != 0 ? cos_part64(q.high, q.low) : sin_part64(q.high, q.low);
  return (q.quarter & 2U) != 0 ? -y : y;
}
XRUN_INLINE double cos64(double x) {
  const Quadrant64 q = quadrant_of64(x);
  const double y = (q.quarter & 1U) != 0 ? sin_part64(q.high, q.low) : cos_part64(q.high, q.low);
  return ((q.quarter + 1U) & 2U) != 0 ? -y : y;
}

}  // namespace xrun::ops
