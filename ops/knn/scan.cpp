#include "ops/knn/scan.h"

#include <immintrin.h>

#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

XRUN_INLINE int64_t append(uint32_t found, int64_t row, int32_t* hits, int64_t count) {
  for (; found != 0; found &= found - 1) {
    hits[count++] = static_cast<int32_t>(row * kKnnPanel + __builtin_ctz(found));
  }
  return count;
}

int64_t scan_avx2(const float* scores, int64_t stride, const float* row_limits, const float* column_limits,
                  int32_t* hits) {
  int64_t count = 0;
  for (int64_t row = 0; row < kKnnPanel; ++row) {
    const __m256 limit = _mm256_set1_ps(row_limits[row]);
    uint32_t found = 0;
    for (int part = 0; part < 4; ++part) {
      const __m256 least = _mm256_min_ps(limit, _mm256_loadu_ps(column_limits + 8 * part));
      const __m256 above = _mm256_cmp_ps(_mm256_loadu_ps(scores + row * stride + 8 * part), least, _CMP_GE_OQ);
      found |= static_cast<uint32_t>(_mm256_movemask_ps(above)) << (8 * part);
    }
    count = append(found, row, hits, count);
  }
  return count;
}

#ifdef __clang__  // ignores XRUN_AVX512 (ops/conv/winograd_tiles.h), and compiles only fuzz targets
constexpr KnnScan scan_avx512 = scan_avx2;
#else
[[gnu::target(XRUN_AVX512)]] int64_t scan_avx512(const float* scores, int64_t stride, const float* row_limits,
                                                 const float* column_limits, int32_t* hits) {
  const __m512 left = _mm512_loadu_ps(column_limits);
  const __m512 right = _mm512_loadu_ps(column_limits + 16);
  int64_t count = 0;
  for (int64_t row = 0; row < kKnnPanel; ++row) {
    const __m512 limit = _mm512_set1_ps(row_limits[row]);
    const __m512 low = _mm512_loadu_ps(scores + row * stride);
    const __m512 high = _mm512_loadu_ps(scores + row * stride + 16);
    const uint32_t first = _mm512_cmp_ps_mask(low, limit, _CMP_GE_OQ) | _mm512_cmp_ps_mask(low, left, _CMP_GE_OQ);
    const uint32_t second = _mm512_cmp_ps_mask(high, limit, _CMP_GE_OQ) | _mm512_cmp_ps_mask(high, right, _CMP_GE_OQ);
    if ((first | second) != 0) {
      count = append(first | second << 16, row, hits, count);
    }
  }
  return count;
}
#endif

}  // namespace

KnnScan knn_scan(Isa isa) { return isa >= Isa::kAvx512 ? scan_avx512 : scan_avx2; }

}  // namespace xrun::ops
