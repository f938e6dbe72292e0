// Elementary functions on lanes. Errors are a few units in the last place unless a comment says otherwise. The
// functions are templates over the type of the lanes: F16 (simd.h) computes, the lanes of the kernel compiler
// (ops/jit/plugin/ir_lanes.h) write the same operations as instructions, and a thread of a GPU computes one `float`
// (scalar_lane.h), so that all give the same bits. Source of the polynomials: Moshier, Cephes Mathematical Library
// (expf, logf, tanhf).
#pragma once

#include <cmath>

#ifdef __CUDACC__
#include "ops/simd/scalar_lane.h"
#else
#include "ops/simd/simd.h"
#endif

namespace xrun::ops {

template <class F>
XRUN_INLINE F magnitude(F x) {
  return if_less(x, fill_like(x, 0), -x, x);
}

// e^x. The result is 0 below -87.3 and infinity above 88.7.
template <class F>
XRUN_INLINE F exp_lanes(F x) {
  const F low = fill_like(x, -87.33654F);
  const F high = fill_like(x, 88.72283F);
  const F clamped = if_less(x, low, low, if_less(high, x, high, x));
  // Adding 1.5 · 2^23 rounds to a whole number, which is then in the low bits of the sum.
  constexpr float kMagic = 12582912.0F;
  const F shifted = clamped * 1.44269504088896341F + kMagic;
  const F n = shifted - kMagic;
  const F r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
  F p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // 2^n in two halves, since n may be 128.
  const auto bits = bits_of(shifted) - 0x4B400000;
  const auto half = bits >> 1;
  const F scale1 = from_bits((half + 127) << 23);
  const F scale2 = from_bits((bits - half + 127) << 23);
  const F y = p * scale1 * scale2;
  const F limited = if_less(high, x, fill_like(x, INFINITY), if_less(x, low, fill_like(x, 0), y));
  return if_number(x, limited, x);
}

// The natural logarithm: -infinity at 0, NaN for negative x.
template <class F>
XRUN_INLINE F log_lanes(F x) {
  const F zero = fill_like(x, 0);
  // A subnormal number has no exponent of its own, so it is multiplied by 2^23, which makes it normal.
  const F least = fill_like(x, 0x1p-126F);
  const auto bits = bits_of(choose<_CMP_LT_OQ>(x, least, x * 0x1p23F, x));
  F m = from_bits((bits & 0x007FFFFF) | 0x3F000000);
  const F split = fill_like(x, 0.707106781186547524F);
  const F lowered = choose<_CMP_LT_OQ>(m, split, fill_like(x, 1.0F), zero);
  const F e =
      converted(((bits >> 23) & 0xFF) - 126) - lowered - choose<_CMP_LT_OQ>(x, least, fill_like(x, 23.0F), zero);
  m = choose<_CMP_LT_OQ>(m, split, m + m, m) - 1.0F;
  F p = m * 7.0376836292e-2F - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const F square = m * m;
  F y = p * m * square + e * -2.12194440e-4F - square * 0.5F;
  y = m + y + e * 0.693359375F;
  y = choose<_CMP_EQ_OQ>(x, zero, fill_like(x, -INFINITY), y);
  y = choose<_CMP_EQ_OQ>(x, fill_like(x, INFINITY), x, y);
  y = choose<_CMP_LT_OQ>(x, zero, fill_like(x, NAN), y);
  return choose<_CMP_UNORD_Q>(x, x, x, y);
}

template <class F>
XRUN_INLINE F sigmoid_lanes(F x) {
  return 1.0F / (exp_lanes(-x) + 1.0F);
}

template <class F>
XRUN_INLINE F tanh_lanes(F x) {
  const F z = x * x;
  F p = z * -5.70498872745e-3F + 2.06390887954e-2F;
  p = p * z - 5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z - 3.33332819422e-1F;
  const F near = p * z * x + x;
  const F size = magnitude(x);
  const F far = 1.0F - 2.0F / (exp_lanes(size + size) + 1.0F);
  return if_less(size, fill_like(x, 0.625F), near, if_less(x, fill_like(x, 0), -far, far));
}

// The error function with an absolute error of 1.5e-7, so results near 0 are relatively inexact. Source: Abramowitz,
// Stegun, Handbook of Mathematical Functions, 7.1.26.
template <class F>
XRUN_INLINE F coarse_erf_lanes(F x) {
  const F size = magnitude(x);
  const F t = 1.0F / (size * 0.3275911F + 1.0F);
  F p = t * 1.061405429F - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const F y = 1.0F - p * t * exp_lanes(-x * x);
  return if_less(x, fill_like(x, 0), -y, y);
}

// The error function. Source: Cephes, erff and erfcf.
template <class F>
XRUN_INLINE F erf_lanes(F x) {
  const F size = magnitude(x);
  const F square = x * x;
  F near = square * 7.853861353153693E-5F - 8.010193625184903E-4F;
  near = near * square + 5.188327685732524E-3F;
  near = near * square - 2.685381193529856E-2F;
  near = near * square + 1.128358514861418E-1F;
  near = near * square - 3.761262582423300E-1F;
  near = (near * square + 1.128379165726710F) * x;
  // A polynomial in 1 / x^2 for 1 - erf; its last terms differ for x above 2.
  const F inverse = 1.0F / size;
  const F y = inverse * inverse;
  F middle = y * 2.326819970068386E-2F - 1.387039388740657E-1F;
  middle = middle * y + 3.687424674597105E-1F;
  middle = middle * y - 5.824733027278666E-1F;
  middle = middle * y + 6.210004621745983E-1F;
  middle = middle * y - 4.944515323274145E-1F;
  middle = middle * y + 3.404879937665872E-1F;
  middle = middle * y - 2.741127028184656E-1F;
  middle = middle * y + 5.638259427386472E-1F;
  F far = y * -1.047766399936249E+1F + 1.297719955372516E+1F;
  far = far * y - 7.495518717768503E+0F;
  far = far * y + 2.921019019210786E+0F;
  far = far * y - 1.015265279202700E+0F;
  far = far * y + 4.218463358204948E-1F;
  far = far * y - 2.820767439740514E-1F;
  far = far * y + 5.641895067754075E-1F;
  const F p = choose<_CMP_LT_OQ>(size, fill_like(x, 2.0F), middle, far);
  const F outer = 1.0F - exp_lanes(-square) * inverse * p;
  const F signed_outer = choose<_CMP_LT_OQ>(x, fill_like(x, 0), -outer, outer);
  return choose<_CMP_GT_OQ>(size, fill_like(x, 1.0F), signed_outer, near);
}

// a to the power of b, computed as e^(b ln |a|), with a relative error of up to 2^-23 |b ln a|. If a < 0, the result is
// NaN if b is not whole, and negative if b is odd. The result is 1 if b is 0 or a is 1.
template <class F>
XRUN_INLINE F power_lanes(F a, F b) {
  const F one = fill_like(a, 1.0F);
  const F zero = fill_like(a, 0);
  F y = exp_lanes(b * log_lanes(magnitude(a)));
  const F half = b * 0.5F;
  const F odd = choose<_CMP_EQ_OQ>(floor_lanes(half), half, y, -y);
  const F of_negative = choose<_CMP_EQ_OQ>(floor_lanes(b), b, odd, fill_like(a, NAN));
  y = choose<_CMP_LT_OQ>(a, zero, of_negative, y);
  y = choose<_CMP_EQ_OQ>(b, zero, one, y);
  return choose<_CMP_EQ_OQ>(a, one, one, y);
}

}  // namespace xrun::ops
