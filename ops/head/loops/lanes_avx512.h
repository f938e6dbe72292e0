// Vectors of sixteen f32 for the loops of kernels_impl.h. Included inside an unnamed namespace.

struct Avx512 {
  using F = __m512;
  static constexpr int kWidth = 16;
  static constexpr int kRows = 14;  // 28 vectors of sums, 2 of B and 1 of A fit into 32 registers

  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void stream(float* p, F v) { _mm512_stream_ps(p, v); }
  static F broadcast(float x) { return _mm512_set1_ps(x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F round(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // Rounds to the nearest f16, ties to even; the subnormal numbers of f16 are kept.
  static F round_f16(F a) { return _mm512_cvtph_ps(_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
  static F scale_by_power(F a, F n) { return _mm512_scalef_ps(a, n); }
  static F zero_where_less(F x, F limit, F v) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), v);
  }
  static F where_equal(F a, F b, F yes, F no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), yes);
  }
  static uint32_t greater_mask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  static uint32_t inside_mask(const int32_t* p, int32_t begin, int32_t end) {
    const __m512i v = _mm512_loadu_si512(p);
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(v, _mm512_set1_epi32(begin)), v,
                                        _mm512_set1_epi32(end));
  }
  static __mmask16 first_lanes(int64_t n) {
    return n >= kWidth ? static_cast<__mmask16>(0xFFFF)
           : n <= 0    ? static_cast<__mmask16>(0)
                       : static_cast<__mmask16>((1U << n) - 1U);
  }
  static F load_upto(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }

  static F load_element(const uint32_t* p) { return _mm512_loadu_ps(p); }
  static F broadcast_element(const uint32_t* p) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int32_t>(*p)));
  }
  static F step(F sum, F a, F b) { return _mm512_fmadd_ps(a, b, sum); }
};
