// Head loops for AVX2 and FMA.
#include <immintrin.h>

#include "ops/head/loops/kernels.h"

namespace xrun::ops {
namespace {

#include "ops/head/loops/kernels_impl.h"

struct Avx2 {
  using F = __m256;
  static constexpr int kWidth = 8;
  static constexpr int kRows = 6;  // 12 vectors of sums, 2 of B and 1 of A fit into 16 registers

  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static void stream(float* p, F v) { _mm256_stream_ps(p, v); }
  static F broadcast(float x) { return _mm256_set1_ps(x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F round(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // Rounds to the nearest f16, ties to even; the subnormal numbers of f16 are kept.
  static F round_f16(F a) { return _mm256_cvtph_ps(_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
  static F scale_by_power(F a, F n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
  }
  static F zero_where_less(F x, F limit, F v) { return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), v); }
  static F where_equal(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
  static uint32_t greater_mask(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
  }
  static uint32_t inside_mask(const int32_t* p, int32_t begin, int32_t end) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i in = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(begin), v),
                                           _mm256_cmpgt_epi32(_mm256_set1_epi32(end), v));
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(in)));
  }
  static F load_upto(const float* p, int64_t n) {
    if (n >= kWidth) {
      return load(p);
    }
    if (n <= 0) {
      return broadcast(0);
    }
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)), lane));
  }

  static F load_element(const uint32_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static F broadcast_element(const uint32_t* p) { return _mm256_broadcast_ss(reinterpret_cast<const float*>(p)); }
  static F step(F sum, F a, F b) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace

constinit const HeadKernels kHeadAvx2 = table_of<Avx2>();

}  // namespace xrun::ops
