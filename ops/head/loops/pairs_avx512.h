// bf16 pairs in 32-bit elements, for AVX512-BF16. Included inside an unnamed namespace, after lanes_avx512.h.

struct Avx512Bf16 : Avx512 {
  // Adds two products of bf16 to each f32 sum: VDPBF16PS adds the product of the odd elements first, then that of the
  // even ones. Inputs and results flush to zero.
  static F step(F sum, F a, F b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }
};

// Converts thirty-two f32 to bf16, in order.
inline __m512i narrow(__m512 low, __m512 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

// Converts sixteen pairs (low, high) to bf16.
inline __m512i pair_up(__m512 low, __m512 high) {
  const __m512i both = narrow(low, high);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, both);
}

inline void pack_classes_pairs(const HeadPackClasses& call) {
  using V = Avx512;
  const int64_t padded = (call.classes + kPanel - 1) / kPanel * kPanel;
  for (int64_t c = 0; c < padded; c += 2) {
    const float* w[2] = {call.weight + c * call.dim, call.weight + (c + 1) * call.dim};
    float inverse[2] = {0, 0};
    for (int64_t i = 0; i < 2; ++i) {
      inverse[i] = c + i >= call.classes ? 0 : call.inverse != nullptr ? call.inverse[c + i] : 1;
    }
    for (int64_t d = 0; d < call.dim_padded; d += kPanel) {
      __m512 v[2][2];
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t left = c + i < call.classes ? call.dim - d : 0;
        v[i][0] = class_values<V>(w[i] + d, left, inverse[i], HeadRounding::kNone);
        v[i][1] = class_values<V>(w[i] + d + 16, left - 16, inverse[i], HeadRounding::kNone);
        if (call.rows != nullptr) {
          _mm512_storeu_si512(call.rows + (c + i) * call.rows_stride + d / 2, narrow(v[i][0], v[i][1]));
        }
      }
      if (call.panels != nullptr) {
        uint32_t* out = call.panels + ((d / kPanel) * call.panel_steps + c / 2) * kPanel;
        _mm512_storeu_si512(out, pair_up(v[0][0], v[1][0]));
        _mm512_storeu_si512(out + 16, pair_up(v[0][1], v[1][1]));
      }
    }
  }
}

inline void pack_gradient_pairs(const HeadTile& tile, uint32_t* pairs, int64_t pairs_stride) {
  const int64_t padded = (tile.classes + kPanel - 1) / kPanel * kPanel;
  for (int64_t c = 0; c < padded; c += 2) {
    float* low = tile.z + c * tile.stride;
    float* high = low + tile.stride;
    const __mmask16 real_low = c < tile.classes ? 0xFFFF : 0;
    const __mmask16 real_high = c + 1 < tile.classes ? 0xFFFF : 0;
    uint32_t* out = pairs + c / 2 * pairs_stride;
    // Works in place, since a row is written only after it has been read.
    for (int64_t row = 0; row < tile.rows; row += 32) {
      const __m512 low0 = _mm512_maskz_loadu_ps(real_low, low + row);
      const __m512 low1 = _mm512_maskz_loadu_ps(real_low, low + row + 16);
      const __m512 high0 = _mm512_maskz_loadu_ps(real_high, high + row);
      const __m512 high1 = _mm512_maskz_loadu_ps(real_high, high + row + 16);
      _mm512_storeu_si512(out + row, pair_up(low0, high0));
      _mm512_storeu_si512(out + row + 16, pair_up(low1, high1));
      _mm512_storeu_si512(low + row / 2, narrow(low0, low1));
      _mm512_storeu_si512(high + row / 2, narrow(high0, high1));
    }
  }
}

// The table for operands that are pairs; `product` computes their products.
constexpr HeadKernels table_of_pairs(void (*product)(const HeadGemm&)) {
  HeadKernels table = table_of<Avx512>();
  table.pairs = true;
  table.gemm = product;
  table.pack_classes = pack_classes_pairs;
  table.pack_gradient = pack_gradient_pairs;
  return table;
}
