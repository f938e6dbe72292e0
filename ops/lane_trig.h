// Sine, cosine and arc cosine on sixteen lanes. Source of the polynomials: Cephes (sinf, cosf, asinf).
#pragma once

#include "ops/lane_math.h"

namespace xrun::ops {

// x less n quarter turns, within an eighth of a turn on both sides of 0, and n. Reduced in f64: exact enough for |x|
// up to 2^30, and NaN beyond.
struct QuarterTurns {
  F16 rest;
  I16 count;
};

using D8 [[gnu::vector_size(64)]] = double;
using F8 [[gnu::vector_size(32)]] = float;
using I8 [[gnu::vector_size(32)]] = int32_t;

XRUN_INLINE QuarterTurns quarter_turns(F16 x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to a whole number
  F8 halves[2];
  I8 counts[2];
  std::memcpy(halves, &x, sizeof x);
  for (int i = 0; i < 2; ++i) {
    const D8 wide = __builtin_convertvector(halves[i], D8);
    const D8 n = (wide * 0.63661977236758134308 + kMagic) - kMagic;
    const D8 rest = (wide - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17;
    halves[i] = __builtin_convertvector(rest, F8);
    counts[i] = __builtin_convertvector(n, I8);
  }
  constexpr float kMost = 1073741824.0F;
  const F16 size = (x < F16{}) ? -x : x;
  QuarterTurns turns;
  std::memcpy(&turns.rest, halves, sizeof halves);
  std::memcpy(&turns.count, counts, sizeof counts);
  turns.rest = choose<_CMP_LE_OQ>(size, broadcast(kMost), turns.rest, broadcast(NAN));
  return turns;
}

// Sine of x plus `ahead` quarter turns.
XRUN_INLINE F16 sine_ahead(F16 x, int32_t ahead) {
  const QuarterTurns turns = quarter_turns(x);
  const I16 quarter = turns.count + ahead;
  const F16 r = turns.rest;
  const F16 z = r * r;
  F16 sine = z * -1.9515295891E-4F + 8.3321608736E-3F;
  sine = sine * z - 1.6666654611E-1F;
  sine = sine * z * r + r;
  F16 cosine = z * 2.443315711809948E-5F - 1.388731625493765E-3F;
  cosine = cosine * z + 4.166664568298827E-2F;
  cosine = cosine * z * z - z * 0.5F + 1.0F;
  const F16 y = ((quarter & 1) != 0) ? cosine : sine;
  return ((quarter & 2) != 0) ? -y : y;
}

XRUN_INLINE F16 sin_lanes(F16 x) { return sine_ahead(x, 0); }
XRUN_INLINE F16 cos_lanes(F16 x) { return sine_ahead(x, 1); }

// Arc cosine; NaN outside of -1 .. 1.
XRUN_INLINE F16 acos_lanes(F16 x) {
  const F16 size = (x < F16{}) ? -x : x;
  const F16 half = broadcast(0.5F);
  // acos(x) = 2 asin(sqrt((1 - x) / 2)) near 1.
  const F16 z = choose<_CMP_GT_OQ>(size, half, (1.0F - size) * 0.5F, x * x);
  const F16 s = choose<_CMP_GT_OQ>(size, half, square_root(z), size);
  F16 p = z * 4.2163199048E-2F + 2.4181311049E-2F;
  p = p * z + 4.5470025998E-2F;
  p = p * z + 7.4953002686E-2F;
  p = p * z + 1.6666752422E-1F;
  const F16 asin = p * z * s + s;
  const F16 outer = asin + asin;
  const F16 inner = choose<_CMP_LT_OQ>(x, F16{}, asin + 1.57079637F, 1.57079637F - asin);
  const F16 far = choose<_CMP_LT_OQ>(x, F16{}, 3.14159274F - outer, outer);
  return choose<_CMP_GT_OQ>(size, half, far, inner);
}

}  // namespace xrun::ops
