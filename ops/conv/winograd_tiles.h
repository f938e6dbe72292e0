// The transforms of Winograd's F(4x4, 3x3), which computes a tile of 4 x 4 outputs of a 3 x 3 window with 36 products
// instead of 144. The 36 points are pairs of 0, ±1, ±2 and infinity. Each transform works on sixteen channels at a
// time, first down the columns and then along the rows: y = Aᵀ [(G w Gᵀ) ⊙ (Bᵀ d B)] A, and for the gradient of w: Gᵀ
// [(Bᵀ d B) ⊙ (A dy Aᵀ)] G. Source: Lavin, Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.
#pragma once

#include <array>
#include <cstdint>

#include "ops/simd/simd.h"

namespace xrun::ops::winograd {

inline constexpr int kTile = 4;    // outputs along a side of a tile
inline constexpr int kWindow = 3;  // weights along a side of a window
inline constexpr int kPatch = 6;   // inputs along a side of the patch that a tile reads
inline constexpr int kPoints = kPatch * kPatch;

#define XRUN_TILES [[gnu::always_inline, gnu::target(XRUN_AVX512)]] inline

XRUN_TILES F16 fma(F16 a, float b, F16 c) {
#ifdef __clang__
  // A loop instead of an intrinsic: Clang ignores the attribute XRUN_AVX512, since it contains an unknown word, and
  // then rejects the intrinsic.
  for (int i = 0; i < kLanes; ++i) {
    c[i] = __builtin_fmaf(a[i], b, c[i]);
  }
  return c;
#else
  return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c);
#endif
}

// Multiplies by Bᵀ: 6 inputs -> 6 points.
XRUN_TILES void input_points(const F16* d, F16* to) {
  const F16 even = fma(d[2], -4, d[4]);
  const F16 odd = fma(d[1], -4, d[3]);
  const F16 even2 = d[4] - d[2];
  const F16 odd2 = d[3] - d[1];
  to[0] = fma(d[0], 4, fma(d[2], -5, d[4]));
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = fma(odd2, 2, even2);
  to[4] = fma(odd2, -2, even2);
  to[5] = fma(d[1], 4, fma(d[3], -5, d[5]));
}

// Multiplies by Aᵀ: 6 points -> 4 outputs.
XRUN_TILES void outputs(const F16* m, F16* to) {
  const F16 sum = m[1] + m[2];
  const F16 difference = m[1] - m[2];
  const F16 sum2 = m[3] + m[4];
  const F16 difference2 = m[3] - m[4];
  to[0] = m[0] + sum + sum2;
  to[1] = fma(difference2, 2, difference);
  to[2] = fma(sum2, 4, sum);
  to[3] = fma(difference2, 8, difference) + m[5];
}

// Multiplies by A: 4 gradients of outputs -> 6 points.
XRUN_TILES void output_points(const F16* g, F16* to) {
  const F16 even = g[0] + g[2];
  const F16 odd = g[1] + g[3];
  const F16 even2 = fma(g[2], 4, g[0]);
  const F16 odd2 = fma(g[3], 4, g[1]);
  to[0] = g[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = fma(odd2, 2, even2);
  to[4] = fma(odd2, -2, even2);
  to[5] = g[3];
}

// Multiplies by G: 3 weights -> 6 points.
XRUN_TILES void weight_points(const F16* w, F16* to) {
  const F16 sum = (w[0] + w[2]) * (-1.0F / 6);
  const F16 sum2 = fma(w[0], 1.0F / 24, w[2] * (1.0F / 6));
  to[0] = w[0] * 0.25F;
  to[1] = fma(w[1], -1.0F / 6, sum);
  to[2] = fma(w[1], 1.0F / 6, sum);
  to[3] = fma(w[1], 1.0F / 12, sum2);
  to[4] = fma(w[1], -1.0F / 12, sum2);
  to[5] = w[2];
}

// Multiplies by Gᵀ: 6 points -> gradients of 3 weights.
XRUN_TILES void weights(const F16* e, F16* to) {
  const F16 sum = (e[1] + e[2]) * (-1.0F / 6);
  const F16 sum2 = e[3] + e[4];
  to[0] = fma(e[0], 0.25F, fma(sum2, 1.0F / 24, sum));
  to[1] = fma(e[2] - e[1], 1.0F / 6, (e[3] - e[4]) * (1.0F / 12));
  to[2] = fma(sum2, 1.0F / 6, sum) + e[5];
}

using Step = void (*)(const F16*, F16*);

// Applies the one-dimensional transform `kStep` down the columns, then along the rows. Reads the input [kFrom][kFrom]
// with read(i, j) and writes the result [kTo][kTo] with write(i, j, v).
template <int kFrom, int kTo, Step kStep, typename Read, typename Write>
XRUN_TILES void transform(const Read& read, const Write& write) {
  F16 half[kTo][kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    F16 column[kFrom];
    F16 made[kTo];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) {
      column[i] = read(i, j);
    }
    kStep(column, made);
#pragma GCC unroll 6
    for (int i = 0; i < kTo; ++i) {
      half[i][j] = made[i];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    F16 made[kTo];
    kStep(half[i], made);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) {
      write(i, j, made[j]);
    }
  }
}

}  // namespace xrun::ops::winograd
