// Tests: tests/ops/conv/winograd_test.cpp
#include "ops/conv/winograd_products.h"

#include "ops/simd/simd.h"

// Clang needs another target attribute here; the comment in `fma` (winograd_tiles.h) gives the reason.
#ifdef __clang__
#define XRUN_PRODUCTS "avx512f"
#else
#define XRUN_PRODUCTS XRUN_AVX512
#endif

namespace xrun::ops::winograd {
namespace {

constexpr int kRows = 14;  // tiles at a time: 28 sums, 2 vectors of weights and 1 of inputs are in 32 registers
constexpr int kOuter = 8;  // outputs at a time of a weight gradient

// Computes kTiles tiles by kVectors · 16 outputs of one panel.
template <int kTiles, int kVectors>
[[gnu::target(XRUN_PRODUCTS)]] void apply_some(const float* from, const float* weight, float* to, int64_t slots,
                                               int64_t in) {
  __m512 sums[kTiles][kVectors];
#pragma GCC unroll 14
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[t][v] = _mm512_setzero_ps();
    }
  }
  for (int64_t group = 0; group < in; group += kGroup, from += slots * kGroup) {
    const float* at = from;
    for (int64_t c = 0; c < kGroup; ++c, ++at, weight += kVectors * kGroup) {
      __m512 w[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        w[v] = _mm512_loadu_ps(weight + v * kGroup);
      }
#pragma GCC unroll 14
      for (int t = 0; t < kTiles; ++t) {
        const __m512 x = _mm512_set1_ps(at[t * kGroup]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sums[t][v] = _mm512_fmadd_ps(x, w[v], sums[t][v]);
        }
      }
    }
  }
#pragma GCC unroll 14
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(to + (v * slots + t) * kGroup, sums[t][v]);
    }
  }
}

template <int kTiles, int kVectors>
void apply_rows(int64_t tiles, const float* from, const float* weight, float* to, int64_t slots, int64_t in) {
  if constexpr (kTiles > 1) {
    if (tiles < kTiles) {
      apply_rows<kTiles - 1, kVectors>(tiles, from, weight, to, slots, in);
      return;
    }
  }
  apply_some<kTiles, kVectors>(from, weight, to, slots, in);
}

// Computes kOuter outputs by kVectors groups of inputs of a weight gradient.
template <int kVectors>
[[gnu::target(XRUN_PRODUCTS)]] void add_some(const float* x, const float* dy, float* to, int64_t tiles, int64_t slots,
                                             int64_t in) {
  __m512 sums[kOuter][kVectors];
#pragma GCC unroll 8
  for (int o = 0; o < kOuter; ++o) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      sums[o][v] = _mm512_loadu_ps(to + o * in + v * kGroup);
    }
  }
  for (int64_t t = 0; t < tiles; ++t) {
    __m512 right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      right[v] = _mm512_loadu_ps(x + (v * slots + t) * kGroup);
    }
#pragma GCC unroll 8
    for (int o = 0; o < kOuter; ++o) {
      const __m512 left = _mm512_set1_ps(dy[t * kGroup + o]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        sums[o][v] = _mm512_fmadd_ps(left, right[v], sums[o][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int o = 0; o < kOuter; ++o) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(to + o * in + v * kGroup, sums[o][v]);
    }
  }
}

}  // namespace

void apply(const float* from, const float* weight, float* to, int64_t tiles, int64_t slots, int64_t in, int64_t out) {
  const int64_t calls = (tiles + kRows - 1) / kRows;
  for (int64_t o = 0; o < out; o += kPanel) {
    const float* const panel = weight + o * in;
    float* const target = to + o * slots;
    for (int64_t call = 0; call < calls; ++call) {
      // The groups of tiles have nearly equal size, since a small last group would leave the multipliers idle.
      const int64_t t = tiles * call / calls;
      const int64_t n = tiles * (call + 1) / calls - t;
      if (out - o >= kPanel) {
        apply_rows<kRows, 2>(n, from + t * kGroup, panel, target + t * kGroup, slots, in);
      } else {
        apply_rows<kRows, 1>(n, from + t * kGroup, panel, target + t * kGroup, slots, in);
      }
    }
  }
}

void add_outer(const float* x, const float* dy, float* to, int64_t tiles, int64_t slots, int64_t in, int64_t out) {
  for (int64_t o = 0; o < out; o += kOuter) {
    const float* const left = dy + o / kGroup * slots * kGroup + o % kGroup;
    for (int64_t i = 0; i < in;) {
      if (in - i >= 2 * kGroup) {
        add_some<2>(x + i * slots, left, to + o * in + i, tiles, slots, in);
        i += 2 * kGroup;
      } else {
        add_some<1>(x + i * slots, left, to + o * in + i, tiles, slots, in);
        i += kGroup;
      }
    }
  }
}

}  // namespace xrun::ops::winograd
