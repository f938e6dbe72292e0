// Sine, cosine and arc cosine on sixteen lanes. Source of the polynomials: Cephes (sinf, cosf, asinf).
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

// The reduction of x by n quarter turns: `rest` is within an eighth of a turn on both sides of 0, and `count` is n.
template <class F, class I>
struct QuarterTurns {
  F rest;
  I count;
};

// Reduces x in f64 (`D`), which is exact enough for |x| up to 2^30.
template <class D>
XRUN_INLINE QuarterTurns<D, D> turns_of(D x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to a whole number
  const D n = (x * 0.63661977236758134308 + kMagic) - kMagic;
  return {(x - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17, n};
}

using D4 [[gnu::vector_size(32)]] = double;

XRUN_INLINE QuarterTurns<F8x2, I8x2> quarter_turns(F8x2 x) {
  float rest[kLanes];
  int32_t count[kLanes];
  store(rest, x);
  for (int i = 0; i < kLanes; i += 4) {
    const auto turns = turns_of(D4(_mm256_cvtps_pd(_mm_loadu_ps(rest + i))));
    _mm_storeu_ps(rest + i, _mm256_cvtpd_ps(turns.rest));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(count + i), _mm256_cvttpd_epi32(turns.count));
  }
  QuarterTurns<F8x2, I8x2> turns{.rest = load<F8x2>(rest), .count = {}};
  std::memcpy(&turns.count.low, count, sizeof turns.count.low);
  std::memcpy(&turns.count.high, count + 8, sizeof turns.count.high);
  return turns;
}

XRUN_INLINE QuarterTurns<F16, I16> quarter_turns(F16 x) {
  const auto both = quarter_turns(halves_of(x));
  QuarterTurns<F16, I16> turns;
  std::memcpy(&turns.rest, &both.rest, sizeof turns.rest);
  std::memcpy(&turns.count, &both.count, sizeof turns.count);
  return turns;
}

// The sine of x plus `ahead` quarter turns; NaN for |x| above 2^30.
template <class F>
XRUN_INLINE F sine_ahead(F x, int32_t ahead) {
  const auto turns = quarter_turns(x);
  const auto quarter = turns.count + ahead;
  const F r = choose<_CMP_LE_OQ>(magnitude(x), fill_like(x, 1073741824.0F), turns.rest, fill_like(x, NAN));
  const F z = r * r;
  F sine = z * -1.9515295891E-4F + 8.3321608736E-3F;
  sine = sine * z - 1.6666654611E-1F;
  sine = sine * z * r + r;
  F cosine = z * 2.443315711809948E-5F - 1.388731625493765E-3F;
  cosine = cosine * z + 4.166664568298827E-2F;
  cosine = cosine * z * z - z * 0.5F + 1.0F;
  const F y = if_bit(quarter, 1, cosine, sine);
  return if_bit(quarter, 2, -y, y);
}

template <class F>
XRUN_INLINE F sin_lanes(F x) {
  return sine_ahead(x, 0);
}
template <class F>
XRUN_INLINE F cos_lanes(F x) {
  return sine_ahead(x, 1);
}

// The arc cosine; NaN outside of -1 .. 1.
template <class F>
XRUN_INLINE F acos_lanes(F x) {
  const F size = magnitude(x);
  const F half = fill_like(x, 0.5F);
  // acos(x) = 2 asin(sqrt((1 - x) / 2)) near 1.
  const F z = choose<_CMP_GT_OQ>(size, half, (1.0F - size) * 0.5F, x * x);
  const F s = choose<_CMP_GT_OQ>(size, half, square_root(z), size);
  F p = z * 4.2163199048E-2F + 2.4181311049E-2F;
  p = p * z + 4.5470025998E-2F;
  p = p * z + 7.4953002686E-2F;
  p = p * z + 1.6666752422E-1F;
  const F asin = p * z * s + s;
  const F outer = asin + asin;
  const F inner = choose<_CMP_LT_OQ>(x, fill_like(x, 0), asin + 1.57079637F, 1.57079637F - asin);
  const F far = choose<_CMP_LT_OQ>(x, fill_like(x, 0), 3.14159274F - outer, outer);
  return choose<_CMP_GT_OQ>(size, half, far, inner);
}

}  // namespace xrun::ops
