// Exponentials and related functions in f64 that give the same bits on processors and GPUs: every operation is one that
// both round exactly, and products are fused with sums only where `std::fma` stands. Arguments and results must not be
// subnormal, since a processor that flushes subnormal numbers does so in f64 too, and a GPU never does.
// Tests: tests/ops/gpu/f64_math_test.cpp
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#include "ops/simd/scalar_lane.h"
#else
#include "ops/simd/simd.h"
#endif

namespace xrun::ops {

// e^x within one unit of the last place. Below -708 the result is 0, above 709 infinity.
XRUN_INLINE double exp64(double x) {
  constexpr double kMagic = 6755399441055744.0;
  if (x < -708) {
    return 0;
  }
  if (x > 709) {
    return static_cast<double>(INFINITY);
  }
  const double shifted = std::fma(x, 1.44269504088896338700, kMagic);
  const double n = shifted - kMagic;
  const double r = std::fma(-n, 1.90821492927058770002e-10, std::fma(-n, 0.693147180369123816490, x));
  double p = 1.0 / 6227020800;  // 1 / 13!, then the series downwards
  p = std::fma(p, r, 1.0 / 479001600);
  p = std::fma(p, r, 1.0 / 39916800);
  p = std::fma(p, r, 1.0 / 3628800);
  p = std::fma(p, r, 1.0 / 362880);
  p = std::fma(p, r, 1.0 / 40320);
  p = std::fma(p, r, 1.0 / 5040);
  p = std::fma(p, r, 1.0 / 720);
  p = std::fma(p, r, 1.0 / 120);
  p = std::fma(p, r, 1.0 / 24);
  p = std::fma(p, r, 1.0 / 6);
  p = std::fma(p, r, 0.5);
  const double y = 1 + std::fma(r * r, p, r);
  const uint64_t power = __builtin_bit_cast(uint64_t, shifted) << 52;  // adds n to the exponent; NaN stays NaN
  return y == y ? __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, y) + power) : y;
}

// The natural logarithm of a normal x > 0, within two units of the last place; NaN for NaN. x = 2^k * f with f in
// [sqrt(1/2), sqrt(2)), and log(f) = 2 atanh(s) with s = (f - 1) / (f + 1), |s| < 0.172, as a series.
XRUN_INLINE double log64(double x) {
  constexpr double kHigh = 0.693147180369123816490;  // ln 2 in two parts; the first has 32 bits
  constexpr double kLow = 1.90821492927058770002e-10;
  const auto bits = __builtin_bit_cast(int64_t, x);
  const int64_t k = (bits - 0x3FE6A09E667F3BCD) >> 52;  // counted from the bits of sqrt(1/2)
  const double f = __builtin_bit_cast(double, bits - (k << 52));
  const double s = (f - 1.0) / (f + 1.0);
  const double square = s * s;
  double sum = 0;
  for (int term = 23; term >= 3; term -= 2) {
    sum = std::fma(sum, square, 2.0 / term);
  }
  const auto whole = static_cast<double>(static_cast<int32_t>(k));
  return x != x ? x : std::fma(whole, kHigh, std::fma(s, 2.0, std::fma(s * square, sum, whole * kLow)));
}

// The hyperbolic tangent with an absolute error below 4e-16, and the error function with one below 3e-15.
XRUN_INLINE double tanh64(double x) {
  const double size = x < 0 ? -x : x;
  const double y = 1 - 2 / (exp64(size + size) + 1);
  return x < 0 ? -y : y;
}
XRUN_INLINE double erf64(double x) {
  if (x > 6 || x < -6) {
    return x < 0 ? -1 : 1;
  }
  // 2 / sqrt(pi) * e^(-x^2) * (x + 2 x^3 / 3 + 4 x^5 / 15 + ...), whose terms have one sign.
  const double square = x * x;
  double term = x, sum = x;
  for (int n = 1; n < 150; ++n) {
    term *= square / (n + 0.5);
    sum += term;
  }
  return sum * exp64(-square) * 1.12837916709551257390;
}

// a to the power of b, computed as e^(b ln |a|), with a relative error of about 2^-52 |b ln a|. If a < 0, the result is
// NaN if b is not whole, and negative if b is odd.
XRUN_INLINE double power64(double a, double b) {
  if (b == 0 || a == 1) {
    return 1;
  }
  const double half = b * 0.5;
  const bool odd = std::floor(half) != half;
  if (a == 0) {
    return b < 0 ? static_cast<double>(INFINITY) : b == b ? 0 : b;
  }
  const double y = exp64(b * log64(a < 0 ? -a : a));
  return a > 0 || a != a ? y : std::floor(b) != b ? static_cast<double>(NAN) : odd ? -y : y;
}

}  // namespace xrun::ops
