// The arithmetic of graph/base/random.h as functions that compilers for processors and for GPUs read: one block of
// Philox, and the key of a stream. Only fixed-width integers and arrays occur, and nothing of the standard library that
// code for a GPU cannot call.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Philox4x32-10).
#pragma once

#include <cstdint>

namespace xrun {

// The four words of a counter, which become four draws.
struct PhiloxWords {
  uint32_t word[4];
};

constexpr PhiloxWords philox_block(PhiloxWords counter, uint64_t key) {
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// SplitMix64's finaliser: a bijective mix, used to combine the parts of a key.
constexpr uint64_t mixed_bits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The key and the upper half of the counters of a stream (RandomStream, graph/base/random.h).
struct StreamKey {
  uint64_t key;
  uint64_t tweak;

  constexpr PhiloxWords block(uint64_t index) const {
    return philox_block({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                          static_cast<uint32_t>(tweak), static_cast<uint32_t>(tweak >> 32)}},
                        key);
  }
};

inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio, added between mixes

constexpr StreamKey stream_key(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  return {mixed_bits(seed + kGolden), mixed_bits(mixed_bits(mixed_bits(a + kGolden) + b + kGolden) + c + kGolden)};
}

}  // namespace xrun
