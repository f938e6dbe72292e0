// Tests: tests/graph/base/base_test.cpp
#include "graph/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <immintrin.h>
#include <numbers>

#include "graph/base/check.h"
#include "graph/base/philox.h"

namespace xrun {

std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter, uint64_t key) {
  const auto& [c0, c1, c2, c3] = philox_block({{counter[0], counter[1], counter[2], counter[3]}}, key).word;
  return {c0, c1, c2, c3};
}

uint64_t stable_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

namespace {

// The high and low 32-bit halves of the eight products a[i] · m.
inline void multiply(__m256i a, __m256i m, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(a, m);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Stores the words of eight blocks next to each other.
inline void store_blocks(__m256i c0, __m256i c1, __m256i c2, __m256i c3, uint32_t* out) {
  const __m256i a = _mm256_unpacklo_epi32(c0, c1), b = _mm256_unpacklo_epi32(c2, c3);
  const __m256i c = _mm256_unpackhi_epi32(c0, c1), d = _mm256_unpackhi_epi32(c2, c3);
  const __m256i r0 = _mm256_unpacklo_epi64(a, b), r1 = _mm256_unpackhi_epi64(a, b);
  const __m256i r2 = _mm256_unpacklo_epi64(c, d), r3 = _mm256_unpackhi_epi64(c, d);
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(r0, r1, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(r2, r3, 0x20));
  _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(r0, r1, 0x31));
  _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(r2, r3, 0x31));
}

// Computes 8 G Philox blocks whose counter words 1 to 3 are equal, and writes their 32 G numbers to `out`. G groups of
// eight blocks are computed together because the rounds of one group leave the multiplier idle for most of their
// latency.
template <int G>
void philox_eights(uint32_t first, const std::array<uint32_t, 4>& counter, uint64_t key, uint32_t* out) {
  __m256i c0[G], c1[G], c2[G], c3[G];
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    c0[g] = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first + 8U * static_cast<uint32_t>(g))), lane);
    c1[g] = _mm256_set1_epi32(static_cast<int>(counter[1]));
    c2[g] = _mm256_set1_epi32(static_cast<int>(counter[2]));
    c3[g] = _mm256_set1_epi32(static_cast<int>(counter[3]));
  }
  const __m256i m0 = _mm256_set1_epi32(static_cast<int>(0xD2511F53u));
  const __m256i m1 = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57u));
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i key0 = _mm256_set1_epi32(static_cast<int>(k0));
    const __m256i key1 = _mm256_set1_epi32(static_cast<int>(k1));
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      __m256i high0, low0, high1, low1;
      multiply(c0[g], m0, high0, low0);
      multiply(c2[g], m1, high1, low1);
      c0[g] = _mm256_xor_si256(_mm256_xor_si256(high1, c1[g]), key0);
      c2[g] = _mm256_xor_si256(_mm256_xor_si256(high0, c3[g]), key1);
      c1[g] = low1;
      c3[g] = low0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    store_blocks(c0[g], c1[g], c2[g], c3[g], out + 32 * g);
  }
}

}  // namespace

void RandomStream::fill(uint64_t first, std::span<uint32_t> out) const {
  size_t at = 0;
  // philox_eights increments only the low counter word, which must not wrap within a call.
  const auto has = [&](uint64_t blocks) {
    return out.size() - at >= 4 * blocks && (first & 0xffffffffu) <= 0x100000000u - blocks;
  };
  for (; has(16); at += 64, first += 16) {
    philox_eights<2>(static_cast<uint32_t>(first), counter_of(first), key_, out.data() + at);
  }
  for (; has(8); at += 32, first += 8) {
    philox_eights<1>(static_cast<uint32_t>(first), counter_of(first), key_, out.data() + at);
  }
  for (; at < out.size(); at += 4, ++first) {
    const auto draws = block(first);
    std::copy_n(draws.begin(), std::min<size_t>(4, out.size() - at), out.begin() + static_cast<ptrdiff_t>(at));
  }
}

RandomStream::RandomStream(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  const StreamKey made = stream_key(seed, a, b, c);
  key_ = made.key;
  tweak_ = made.tweak;
}

float RandomStream::normal(uint64_t element) const {
  const auto draws = block(element / 2);
  const size_t at = element % 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(to_open_unit(draws[at]))));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * to_unit(draws[at + 1])));
}

namespace {

// The polynomial c[0] + x·(c[1] + x·(...)).
template <size_t N>
__m256d polynomial(__m256d x, const double (&c)[N]) {
  __m256d sum = _mm256_set1_pd(c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    sum = _mm256_fmadd_pd(sum, x, _mm256_set1_pd(c[i]));
  }
  return sum;
}

// Converts whole numbers below 2^51 in lanes of 64 bits.
__m256d to_double(__m256i whole) {
  const __m256d magic = _mm256_set1_pd(0x1p52);
  return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(whole, _mm256_castpd_si256(magic))), magic);
}

// log(x) for normal 0 < x < 2, within some units of the last place: x = 2^k · f with f in [sqrt(1/2), sqrt(2)), and
// log(f) = 2 atanh(s) with s = (f - 1) / (f + 1), |s| < 0.172.
__m256d log_four(__m256d x) {
  constexpr double kAtanh[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,
                               2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19};
  constexpr int64_t kBias = 1024;  // keeps the shifted number positive: AVX2 has no arithmetic shift of 64 bits
  const __m256i bits = _mm256_castpd_si256(x);
  const __m256i half = _mm256_castpd_si256(_mm256_set1_pd(std::numbers::sqrt2 / 2));
  const __m256i shifted = _mm256_sub_epi64(bits, half);
  const __m256i exponent = _mm256_and_si256(shifted, _mm256_set1_epi64x(static_cast<int64_t>(0xfffull << 52)));
  const __m256d f = _mm256_castsi256_pd(_mm256_sub_epi64(bits, exponent));
  const __m256i above = _mm256_srli_epi64(_mm256_add_epi64(shifted, _mm256_set1_epi64x(kBias << 52)), 52);
  const __m256d k = _mm256_sub_pd(to_double(above), _mm256_set1_pd(kBias));
  const __m256d one = _mm256_set1_pd(1);
  const __m256d s = _mm256_div_pd(_mm256_sub_pd(f, one), _mm256_add_pd(f, one));
  return _mm256_fmadd_pd(k, _mm256_set1_pd(std::numbers::ln2),
                         _mm256_mul_pd(s, polynomial(_mm256_mul_pd(s, s), kAtanh)));
}

// cos(x) for 0 <= x <= 2 pi, within some units of the last place also near its zeros: pi / 2 is subtracted in two
// parts.
__m256d cos_four(__m256d x) {
  constexpr double kHigh = std::numbers::pi / 2;
  constexpr double kLow = 6.123233995736766e-17;  // pi / 2 - kHigh
  constexpr double kSin[] = {1.0,          -1.0 / 6,        1.0 / 120,         -1.0 / 5040,
                             1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800., -1.0 / 1307674368000.};
  constexpr double kCos[] = {1.0,
                             -1.0 / 2,
                             1.0 / 24,
                             -1.0 / 720,
                             1.0 / 40320,
                             -1.0 / 3628800,
                             1.0 / 479001600.,
                             -1.0 / 87178291200.,
                             1.0 / 20922789888000.};
  const __m256d q =
      _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(1 / kHigh)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256d high = _mm256_fnmadd_pd(q, _mm256_set1_pd(kHigh), x);
  const __m256d r = _mm256_fnmadd_pd(q, _mm256_set1_pd(kLow), high);
  const __m256d r2 = _mm256_mul_pd(r, r);
  const __m256d sine = _mm256_mul_pd(r, polynomial(r2, kSin));
  const __m256d cosine = polynomial(r2, kCos);
  // cos(r + q · pi / 2) is cos, -sin, -cos, sin of r for q = 0, 1, 2, 3.
  const __m256i quadrant = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(q));
  const __m256d odd = _mm256_castsi256_pd(_mm256_slli_epi64(quadrant, 63));
  const __m256i next = _mm256_add_epi64(quadrant, _mm256_set1_epi64x(1));
  const __m256d sign = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_srli_epi64(next, 1), 63));
  return _mm256_xor_pd(_mm256_blendv_pd(cosine, sine, odd), sign);
}

// Box–Muller for four pairs of draws. The result here and that of the C library's functions are both within 2^-42 of
// the true value. If all values that are so close round to one float, that float is the result of `normal`. The return
// value has a bit for each of the four results for which this is not certain: one in 2^17.
int normal_four(const uint32_t* draws, float* out) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(draws));
  const __m256i radii = _mm256_srli_epi64(_mm256_slli_epi64(pairs, 32), 40);
  const __m256i angles = _mm256_srli_epi64(pairs, 40);
  const __m256d unit = _mm256_set1_pd(0x1p-24);
  const __m256d u = _mm256_mul_pd(_mm256_add_pd(to_double(radii), _mm256_set1_pd(1)), unit);
  const __m256d x = _mm256_mul_pd(_mm256_set1_pd(2.0 * std::numbers::pi), _mm256_mul_pd(to_double(angles), unit));
  const __m256d radius = _mm256_sqrt_pd(_mm256_mul_pd(_mm256_set1_pd(-2), log_four(u)));
  const __m256d z = _mm256_mul_pd(radius, cos_four(x));
  const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(z, _mm256_set1_pd(1 - 0x1p-42)));
  const __m128 high = _mm256_cvtpd_ps(_mm256_mul_pd(z, _mm256_set1_pd(1 + 0x1p-42)));
  _mm_storeu_ps(out, low);
  // A radius of 0 has a sign, so a result of 0 is also uncertain.
  const __m128 known = _mm_and_ps(_mm_cmpeq_ps(low, high), _mm_cmpneq_ps(low, _mm_setzero_ps()));
  return ~_mm_movemask_ps(known) & 15;
}

}  // namespace

void RandomStream::fill_normal(uint64_t first, std::span<float> out) const {
  constexpr size_t kAtOnce = 64;
  std::array<uint32_t, 2 * kAtOnce> draws;
  std::array<float, kAtOnce> normals;
  const size_t skip = first % 2;  // a block has the draws of two normal numbers
  for (uint64_t from = first - skip; from < first + out.size(); from += kAtOnce) {
    fill(from / 2, draws);
    for (size_t i = 0; i < kAtOnce; i += 4) {
      for (int open = normal_four(draws.data() + 2 * i, normals.data() + i); open != 0; open &= open - 1) {
        const size_t at = i + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(open)));
        normals[at] = normal(from + at);
      }
    }
    const size_t begin = from < first ? skip : 0;
    const size_t end = std::min<uint64_t>(kAtOnce, first + out.size() - from);
    std::copy(normals.data() + begin, normals.data() + end, out.data() + (from + begin - first));
  }
}

uint64_t RandomStream::below(uint64_t element, uint64_t n) const {
  const auto draws = block(element);
  const uint64_t bits = uint64_t{draws[1]} << 32 | draws[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(bits) * n >> 64);
}

Permutation::Permutation(uint64_t n, uint64_t seed, uint64_t stream)
    : n_(n), key_(mixed_bits(mixed_bits(seed + kGolden) + stream + kGolden)), half_bits_(1) {
  XRUN_CHECK(n > 0, "a permutation of nothing");
  while ((uint64_t{1} << (2 * half_bits_)) < n) {
    ++half_bits_;
  }
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // The domain of the network is the next power of four, so cycle walking takes fewer than four rounds on average.
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const auto bits = philox({static_cast<uint32_t>(right), static_cast<uint32_t>(right >> 32), round, 0}, key_);
      const uint64_t next = (left ^ (uint64_t{bits[1]} << 32 | bits[0])) & mask;
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

}  // namespace xrun
