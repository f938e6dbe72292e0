// Head loops for AMX. Matrix products use tiles of 16 x 16 sums, with 16 pairs of bf16 in a step. All other loops are
// the loops for AVX512-BF16.
// Tests: tests/ops/head/head_kernels_test.cpp
#include <immintrin.h>

#include "ops/head/loops/kernels.h"
#include "ops/simd/amx_tiles.h"

namespace xrun::ops {
namespace {

#include "ops/head/loops/kernels_impl.h"
#include "ops/head/loops/lanes_avx512.h"
#include "ops/head/loops/pairs_avx512.h"

constexpr int64_t kTileStep = 16;  // pairs in one TDPBF16PS

// Transposes 16 by 16 elements: out[k][r] = a[r · stride + k]. It exchanges pairs, then groups of four, then 128-bit
// lanes.
inline void transpose(const uint32_t* a, int64_t stride, uint32_t* out) {
  __m512i v[16];
  for (int r = 0; r < 16; ++r) {
    v[r] = _mm512_loadu_si512(a + r * stride);
  }
  __m512i t[16];
  for (int r = 0; r < 16; r += 2) {
    t[r] = _mm512_unpacklo_epi32(v[r], v[r + 1]);
    t[r + 1] = _mm512_unpackhi_epi32(v[r], v[r + 1]);
  }
  for (int r = 0; r < 16; r += 4) {
    v[r] = _mm512_unpacklo_epi64(t[r], t[r + 2]);
    v[r + 1] = _mm512_unpackhi_epi64(t[r], t[r + 2]);
    v[r + 2] = _mm512_unpacklo_epi64(t[r + 1], t[r + 3]);
    v[r + 3] = _mm512_unpackhi_epi64(t[r + 1], t[r + 3]);
  }
  // Lane block l of v[4g + j] now has rows 4g .. 4g + 3 of column 4l + j.
  for (int j = 0; j < 4; ++j) {
    const __m512i low01 = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xEE);
    const __m512i low23 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x44);
    const __m512i high23 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xEE);
    const __m512i columns[4] = {_mm512_shuffle_i32x4(low01, low23, 0x88), _mm512_shuffle_i32x4(low01, low23, 0xDD),
                                _mm512_shuffle_i32x4(high01, high23, 0x88), _mm512_shuffle_i32x4(high01, high23, 0xDD)};
    for (int l = 0; l < 4; ++l) {
      _mm512_storeu_si512(out + (4 * l + j) * 16, columns[l]);
    }
  }
}

// Computes a product in AMX tiles: tiles 0 to 3 hold 2 x 2 tiles of C, 4 and 5 the upper and lower part of A, 6 and 7
// the left and right part of B. REQUIRES: buffers of C and of a row-major A have rows up to a multiple of 32, and k is
// a multiple of 16.
void gemm_tiles(const HeadGemm& call) {
  alignas(64) uint32_t upper[kStepK * 16];
  alignas(64) uint32_t lower[kStepK * 16];
  _tile_loadconfig(&kAmxTiles);
  const auto c_stride = static_cast<size_t>(call.c_m) * 4;
  for (int64_t k0 = 0; k0 < call.k; k0 += kStepK) {
    const int64_t k = call.k - k0 < kStepK ? call.k - k0 : kStepK;
    for (int64_t m = 0; m < call.m; m += 32) {
      const uint32_t* a0 = call.a + m * call.a_m + k0 * call.a_k;
      const uint32_t* a1 = a0 + 16 * call.a_m;
      int64_t a_m = call.a_m;
      int64_t a_k = 1;
      if (call.a_k != 1) {
        // Converts [k][m] to blocks of [16 rows][16 pairs] by transposing, with rows and steps exchanged.
        for (int64_t i = 0; i < k; i += kTileStep) {
          transpose(a0 + i * call.a_k, call.a_k, upper + i * 16);
          transpose(a1 + i * call.a_k, call.a_k, lower + i * 16);
        }
        asm volatile("" ::: "memory");  // GCC 12 assumes that _tile_loadd reads no memory
        a0 = upper;
        a1 = lower;
        a_m = 16;
        a_k = 16;
      }
      const auto a_stride = static_cast<size_t>(a_m) * 4;
      for (int64_t p = 0; p < call.panels; ++p) {
        const uint32_t* b = call.b + p * call.b_panel + k0 * kPanel;
        float* c0 = call.c + m * call.c_m + p * kPanel;
        float* c1 = c0 + 16 * call.c_m;
        if (call.add || k0 > 0) {
          _tile_loadd(0, c0, c_stride);
          _tile_loadd(1, c0 + 16, c_stride);
          _tile_loadd(2, c1, c_stride);
          _tile_loadd(3, c1 + 16, c_stride);
        } else {
          _tile_zero(0);
          _tile_zero(1);
          _tile_zero(2);
          _tile_zero(3);
        }
        with_prefetch(call.prefetch, a0, k, [&](const char* ahead, int64_t line) {
          for (int64_t i = 0; i < k; i += kTileStep) {
            for (int64_t step = 0; step < kTileStep; step += kStepsOfLine) {
              __builtin_prefetch(ahead, 0, 2);
              ahead += line;
            }
            _tile_loadd(4, a0 + i * a_k, a_stride);
            _tile_loadd(5, a1 + i * a_k, a_stride);
            _tile_loadd(6, b + i * kPanel, kPanel * 4);
            _tile_loadd(7, b + i * kPanel + 16, kPanel * 4);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
          }
        });
        _tile_stored(0, c0, c_stride);
        _tile_stored(1, c0 + 16, c_stride);
        _tile_stored(2, c1, c_stride);
        _tile_stored(3, c1 + 16, c_stride);
      }
    }
  }
  _tile_release();
}

}  // namespace

constinit const HeadKernels kHeadAmx = table_of_pairs(gemm_tiles);

}  // namespace xrun::ops
