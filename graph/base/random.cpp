#include "graph/base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <immintrin.h>
#include <numbers>

#include "graph/base/check.h"

namespace xrun {
namespace {

// SplitMix64's finaliser: a bijective mix used to fold the parts of a key.
constexpr uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

}  // namespace

std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter, uint64_t key) {
  auto [c0, c1, c2, c3] = counter;
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
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

// High and low halves of the eight products a[i] · m.
inline void multiply(__m256i a, __m256i m, __m256i& high, __m256i& low) {
  const __m256i even = _mm256_mul_epu32(a, m);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Eight Philox blocks at once; counter words 1 to 3 are the same in all. out[32].
void philox_eight(uint32_t first, const std::array<uint32_t, 4>& counter, uint64_t key, uint32_t* out) {
  __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  __m256i c1 = _mm256_set1_epi32(static_cast<int>(counter[1]));
  __m256i c2 = _mm256_set1_epi32(static_cast<int>(counter[2]));
  __m256i c3 = _mm256_set1_epi32(static_cast<int>(counter[3]));
  const __m256i m0 = _mm256_set1_epi32(static_cast<int>(0xD2511F53u));
  const __m256i m1 = _mm256_set1_epi32(static_cast<int>(0xCD9E8D57u));
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    __m256i high0, low0, high1, low1;
    multiply(c0, m0, high0, low0);
    multiply(c2, m1, high1, low1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), _mm256_set1_epi32(static_cast<int>(k0)));
    c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), _mm256_set1_epi32(static_cast<int>(k1)));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  // Words of a block side by side.
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

}  // namespace

void RandomStream::fill(uint64_t first, std::span<uint32_t> out) const {
  size_t at = 0;
  // The low counter word must not wrap inside a group of eight.
  while (out.size() - at >= 32 && (first & 0xffffffffu) <= 0xfffffff8u) {
    philox_eight(static_cast<uint32_t>(first), counter_of(first), key_, out.data() + at);
    at += 32;
    first += 8;
  }
  for (; at < out.size(); at += 4, ++first) {
    const auto draws = block(first);
    std::copy_n(draws.begin(), std::min<size_t>(4, out.size() - at), out.begin() + static_cast<ptrdiff_t>(at));
  }
}

RandomStream::RandomStream(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
    : key_(mix(seed + kGolden)), tweak_(mix(mix(mix(a + kGolden) + b + kGolden) + c + kGolden)) {}

float RandomStream::normal(uint64_t element) const {
  const auto draws = block(element / 2);
  const size_t at = element % 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(to_open_unit(draws[at]))));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * to_unit(draws[at + 1])));
}

uint64_t RandomStream::below(uint64_t element, uint64_t n) const {
  const auto draws = block(element);
  const uint64_t bits = uint64_t{draws[1]} << 32 | draws[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(bits) * n >> 64);
}

Permutation::Permutation(uint64_t n, uint64_t seed, uint64_t stream)
    : n_(n), key_(mix(mix(seed + kGolden) + stream + kGolden)), half_bits_(1) {
  XRUN_CHECK(n > 0, "a permutation of nothing");
  while ((uint64_t{1} << (2 * half_bits_)) < n) {
    ++half_bits_;
  }
}

uint64_t Permutation::operator()(uint64_t i) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // The domain is the next power of four, so cycle walking takes fewer than four rounds on average.
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
