// Rows are converted eight elements at a time. To round an element, the code adds sixteen random bits below the last
// bit that the narrow format keeps, and then cuts off the bits below that one. So a value is rounded up with a
// probability that is proportional to the part cut off. To round to the nearest value, the random bits are always one
// half. Rows in fp8 (e4m3) are first divided by a power of two so that the largest value fits.
#include "ops/head/row_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <numeric>
#include <span>

#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

// Number of elements whose random bits, sixteen for each element, are drawn at once.
constexpr int64_t kRun = 256;

// The format e4m3 has no infinities: 448 is the largest number, 0x7F is NaN.
constexpr float kLargestFp8 = 448;
constexpr float kSmallestNormalFp8 = 0x1p-6F;
constexpr int32_t kFp8Bias = (127 - 7) << 3;  // difference of the exponent biases of f32 and e4m3, shifted

// The loops use eight lanes, since GCC 12 splits conversions between bytes, halves and words of wider vectors into
// single lanes.
constexpr int64_t kEight = 8;

// Loads eight elements' random bits, sixteen for each element.
__m256i load_draws(const std::byte* p) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// Returns the low 16 bits of each 32-bit word.
__m128i low_halves(__m256i words) {
  return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

__m256 from_fp8(__m128i bytes) {
  const __m256i code = _mm256_cvtepu8_epi32(bytes);
  const __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi32(0x7F));
  const __m256i normal = _mm256_slli_epi32(_mm256_add_epi32(magnitude, _mm256_set1_epi32(kFp8Bias)), 20);
  const __m256 subnormal = _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(0x1p-9F));
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), magnitude);
  const __m256 size = _mm256_blendv_ps(_mm256_castsi256_ps(normal), subnormal, _mm256_castsi256_ps(small));
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x80)), 24);
  return _mm256_or_ps(size, _mm256_castsi256_ps(sign));
}

// Rounds to e4m3; each result is in the low byte of 16 bits. REQUIRES: |v| <= kLargestFp8.
__m128i to_fp8(__m256 v, __m256i draws) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
  const __m256 size = _mm256_castsi256_ps(magnitude);
  const __m256i raised = _mm256_add_epi32(magnitude, _mm256_slli_epi32(draws, 4));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(raised, 20), _mm256_set1_epi32(kFp8Bias));
  const __m256 places =
      _mm256_fmadd_ps(_mm256_cvtepi32_ps(draws), _mm256_set1_ps(0x1p-16F), _mm256_mul_ps(size, _mm256_set1_ps(0x1p9F)));
  const __m256 small = _mm256_cmp_ps(size, _mm256_set1_ps(kSmallestNormalFp8), _CMP_LT_OQ);
  const __m256i code = _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(normal), _mm256_castsi256_ps(_mm256_cvttps_epi32(places)), small));
  return low_halves(_mm256_or_si256(code, _mm256_srli_epi32(_mm256_andnot_si256(magnitude, bits), 24)));
}

__m128i to_bf16_bits(__m256 v, __m256i draws) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, draws), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  return low_halves(
      _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan)));
}

// Returns the smallest power of two such that values up to `largest` fit after the division by it. It is at least
// 2^-100, so that its inverse is finite.
float scale_of(float largest) {
  if (!(largest <= std::numeric_limits<float>::max())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  int exponent = 0;
  const float part = std::frexp(largest / kLargestFp8, &exponent);  // in [1/2, 1), or 0
  return std::ldexp(1.0F, std::max(part == 0.5F ? exponent - 1 : exponent, -100));
}

// Stores the first `left` of eight elements, or all of them. Each has `bytes` bytes.
template <typename Eight>
void put(const Eight& elements, int64_t bytes, int64_t left, std::byte* to) {
  if (left >= kEight) {
    std::memcpy(to, &elements, sizeof elements);
  } else {
    std::memcpy(to, &elements, static_cast<size_t>(left * bytes));
  }
}

// Returns the largest magnitude of the values, or NaN if one of them is NaN or infinite.
float largest_of(const float* values, int64_t n) {
  __m256 largest = _mm256_setzero_ps();
  __m256 unordered = _mm256_setzero_ps();  // becomes NaN if a value is not finite
  const __m256 size = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  for (int64_t i = 0; i < n; i += kEight) {
    float some[kEight] = {};
    const float* from = values + i;
    if (n - i < kEight) {
      std::copy_n(from, n - i, some);
      from = some;
    }
    const __m256 v = _mm256_loadu_ps(from);
    largest = _mm256_max_ps(largest, _mm256_and_ps(v, size));
    unordered = _mm256_add_ps(unordered, _mm256_sub_ps(v, v));
  }
  float lanes[2][kEight];
  _mm256_storeu_ps(lanes[0], largest);
  _mm256_storeu_ps(lanes[1], unordered);
  const float nan = std::accumulate(lanes[1], lanes[1] + kEight, 0.0F);
  return *std::max_element(lanes[0], lanes[0] + kEight) + nan;
}

// The random bits of a row, sixteen for each element. Without `random` they are always one half, which rounds to the
// nearest value.
struct Draws {
  const RandomStream* random = nullptr;

  // Fills `words` from element `begin` on; each word has the bits of two elements.
  void fill(int64_t begin, std::span<uint32_t> words) const {
    if (random == nullptr) {
      std::ranges::fill(words, 0x8000'8000U);
    } else {
      random->fill(static_cast<uint64_t>(begin / kEight), words);
    }
  }
};

// Calls body(first, values, draws) for eight elements at a time. After the last element come zeros.
template <typename Body>
void for_eights(const float* values, int64_t n, const Draws& random, const Body& body) {
  for (int64_t begin = 0; begin < n; begin += kRun) {
    uint32_t words[kRun / 2];
    const int64_t count = std::min(kRun, n - begin);
    random.fill(begin, {words, static_cast<size_t>((count + 7) / 8 * 4)});
    const auto* draws = reinterpret_cast<const std::byte*>(words);
    for (int64_t i = 0; i < count; i += kEight) {
      float some[kEight] = {};
      const float* from = values + begin + i;
      if (count - i < kEight) {
        std::copy_n(from, count - i, some);
        from = some;
      }
      body(begin + i, _mm256_loadu_ps(from), load_draws(draws + 2 * i));
    }
  }
}

float store(RowFormat format, const float* values, int64_t n, const Draws& random, std::byte* row) {
  if (format == RowFormat::kF32) {
    std::memcpy(row, values, static_cast<size_t>(n) * sizeof(float));
    return 1;
  }
  if (format == RowFormat::kBf16) {
    for_eights(values, n, random, [&](int64_t first, __m256 v, __m256i draws) {
      const __m128i bits = to_bf16_bits(v, draws);
      put(bits, 2, n - first, row + first * 2);
    });
    return 1;
  }
  const float scale = scale_of(largest_of(values, n));
  const __m256 inverse = _mm256_set1_ps(scale == scale ? 1 / scale : 0);
  for_eights(values, n, random, [&](int64_t first, __m256 v, __m256i draws) {
    const __m128i codes = to_fp8(_mm256_mul_ps(v, inverse), draws);
    put(_mm_cvtsi128_si64(_mm_packus_epi16(codes, codes)), 1, n - first, row + first);
  });
  return scale;
}

}  // namespace

void load_row(RowFormat format, const std::byte* row, float scale, int64_t n, float* out) {
  if (format == RowFormat::kF32) {
    std::memcpy(out, row, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  if (format == RowFormat::kBf16) {
    const auto* from = reinterpret_cast<const Bf16*>(row);
    for (int64_t i = 0; i < n; i += kLanes) {
      store_upto(out + i, load_upto(from + i, n - i), n - i);
    }
    return;
  }
  const __m256 factor = _mm256_set1_ps(scale);
  for (int64_t i = 0; i < n; i += kEight) {
    int64_t codes = 0;
    if (n - i >= kEight) {
      std::memcpy(&codes, row + i, sizeof codes);
    } else {
      std::memcpy(&codes, row + i, static_cast<size_t>(n - i));
    }
    put(_mm256_mul_ps(from_fp8(_mm_cvtsi64_si128(codes)), factor), sizeof(float), n - i,
        reinterpret_cast<std::byte*>(out + i));
  }
}

float store_row(RowFormat format, const float* values, int64_t n, const RandomStream& random, std::byte* row) {
  return store(format, values, n, {&random}, row);
}

float store_nearest(RowFormat format, const float* values, int64_t n, std::byte* row) {
  return store(format, values, n, {}, row);
}

}  // namespace xrun::ops
