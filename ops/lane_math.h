// Elementary functions on sixteen lanes; errors are a few units in the last place unless said otherwise.
// Source of the polynomials: Moshier, Cephes Mathematical Library (expf, logf, tanhf).
#pragma once

#include <cmath>

#include "ops/simd.h"

namespace xrun::ops {

// e^x; 0 below -87.3, infinity above 88.7.
XRUN_INLINE F16 exp_lanes(F16 x) {
  const F16 low = broadcast(-87.33654F);
  const F16 high = broadcast(88.72283F);
  const F16 clamped = (x < low) ? low : ((x > high) ? high : x);
  // Adding 1.5 · 2^23 rounds to a whole number, which then sits in the low bits.
  constexpr float kMagic = 12582912.0F;
  const F16 shifted = clamped * 1.44269504088896341F + kMagic;
  const F16 n = shifted - kMagic;
  const F16 r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  F16 p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // 2^n in two halves, since n may be 128.
  const I16 bits = reinterpret_cast<I16>(shifted) - 0x4B400000;
  const I16 half = bits >> 1;
  const F16 scale1 = reinterpret_cast<F16>((half + 127) << 23);
  const F16 scale2 = reinterpret_cast<F16>((bits - half + 127) << 23);
  const F16 y = p * scale1 * scale2;
  const F16 limited = (x > high) ? broadcast(INFINITY) : ((x < low) ? F16{} : y);
  return (x == x) ? limited : x;
}

// Natural logarithm; -infinity at 0, NaN below.
XRUN_INLINE F16 log_lanes(F16 x) {
  const I16 bits = reinterpret_cast<I16>(x);
  const I16 exponent = ((bits >> 23) & 0xFF) - 126;
  F16 m = reinterpret_cast<F16>((bits & 0x007FFFFF) | 0x3F000000);
  const F16 split = broadcast(0.707106781186547524F);
  const F16 e = __builtin_convertvector(exponent, F16) - choose<_CMP_LT_OQ>(m, split, broadcast(1.0F), F16{});
  m = choose<_CMP_LT_OQ>(m, split, m + m, m) - 1.0F;
  F16 p = m * 7.0376836292e-2F - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const F16 square = m * m;
  F16 y = p * m * square + e * -2.12194440e-4F - square * 0.5F;
  y = m + y + e * 0.693359375F;
  y = choose<_CMP_EQ_OQ>(x, F16{}, broadcast(-INFINITY), y);
  y = choose<_CMP_EQ_OQ>(x, broadcast(INFINITY), x, y);
  y = choose<_CMP_LT_OQ>(x, F16{}, broadcast(NAN), y);
  return choose<_CMP_UNORD_Q>(x, x, x, y);
}

XRUN_INLINE F16 sigmoid_lanes(F16 x) { return 1.0F / (exp_lanes(-x) + 1.0F); }

XRUN_INLINE F16 tanh_lanes(F16 x) {
  const F16 z = x * x;
  F16 p = z * -5.70498872745e-3F + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const F16 near = p * z * x + x;
  const F16 size = (x < F16{}) ? -x : x;
  const F16 far = 1.0F - 2.0F / (exp_lanes(size + size) + 1.0F);
  return (size < broadcast(0.625F)) ? near : ((x < F16{}) ? -far : far);
}

// Absolute error 1.5e-7, and so inexact near 0. Source: Abramowitz, Stegun, Handbook of Mathematical Functions, 7.1.26.
XRUN_INLINE F16 coarse_erf_lanes(F16 x) {
  const F16 size = (x < F16{}) ? -x : x;
  const F16 t = 1.0F / (size * 0.3275911F + 1.0F);
  F16 p = t * 1.061405429F - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const F16 y = 1.0F - p * t * exp_lanes(-x * x);
  return (x < F16{}) ? -y : y;
}

// The error function. Source: Cephes, erff and erfcf.
XRUN_INLINE F16 erf_lanes(F16 x) {
  const F16 size = (x < F16{}) ? -x : x;
  const F16 square = x * x;
  F16 near = square * 7.853861353153693E-5F - 8.010193625184903E-4F;
  near = near * square + 5.188327685732524E-3F;
  near = near * square - 2.685381193529856E-2F;
  near = near * square + 1.128358514861418E-1F;
  near = near * square - 3.761262582423300E-1F;
  near = (near * square + 1.128379165726710F) * x;
  // 1 - erf in powers of 1 / x^2; above 2 the last terms differ.
  const F16 inverse = 1.0F / size;
  const F16 y = inverse * inverse;
  F16 middle = y * 2.326819970068386E-2F - 1.387039388740657E-1F;
  middle = middle * y + 3.687424674597105E-1F;
  middle = middle * y - 5.824733027278666E-1F;
  middle = middle * y + 6.210004621745983E-1F;
  middle = middle * y - 4.944515323274145E-1F;
  middle = middle * y + 3.404879937665872E-1F;
  middle = middle * y - 2.741127028184656E-1F;
  middle = middle * y + 5.638259427386472E-1F;
  F16 far = y * -1.047766399936249E+1F + 1.297719955372516E+1F;
  far = far * y - 7.495518717768503E+0F;
  far = far * y + 2.921019019210786E+0F;
  far = far * y - 1.015265279202700E+0F;
  far = far * y + 4.218463358204948E-1F;
  far = far * y - 2.820767439740514E-1F;
  far = far * y + 5.641895067754075E-1F;
  const F16 p = choose<_CMP_LT_OQ>(size, broadcast(2.0F), middle, far);
  const F16 outer = 1.0F - exp_lanes(-square) * inverse * p;
  const F16 signed_outer = choose<_CMP_LT_OQ>(x, F16{}, -outer, outer);
  return choose<_CMP_GT_OQ>(size, broadcast(1.0F), signed_outer, near);
}

// The largest whole number that is not above x.
XRUN_INLINE F16 floor_lanes(F16 x) {
  __m256 halves[2];
  std::memcpy(halves, &x, sizeof x);
  halves[0] = _mm256_floor_ps(halves[0]);
  halves[1] = _mm256_floor_ps(halves[1]);
  std::memcpy(&x, halves, sizeof x);
  return x;
}

// a to the power of b, as e^(b ln |a|): a relative error of up to 2^-23 |b ln a|. For a < 0: NaN where b is not whole,
// and the sign of an odd b. 1 where b is 0 or a is 1.
XRUN_INLINE F16 power_lanes(F16 a, F16 b) {
  const F16 size = (a < F16{}) ? -a : a;
  F16 y = exp_lanes(b * log_lanes(size));
  const F16 half = b * 0.5F;
  const F16 odd = choose<_CMP_EQ_OQ>(floor_lanes(half), half, y, -y);
  const F16 of_negative = choose<_CMP_EQ_OQ>(floor_lanes(b), b, odd, broadcast(NAN));
  y = choose<_CMP_LT_OQ>(a, F16{}, of_negative, y);
  y = choose<_CMP_EQ_OQ>(b, F16{}, broadcast(1.0F), y);
  return choose<_CMP_EQ_OQ>(a, broadcast(1.0F), broadcast(1.0F), y);
}

}  // namespace xrun::ops
