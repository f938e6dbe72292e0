#include "graph/base/random.h"

#include <bit>
#include <cmath>
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
