// Counter-based random numbers: a draw is a pure function of its purpose, never of the device, shard or thread that
// makes it (docs/internals/determinism.md, "Random numbers").
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (Philox4x32-10).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace xrun {

// One Philox4x32-10 block: 128 random bits for a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox(const std::array<uint32_t, 4>& counter, uint64_t key);

// Stable 64-bit hash of a path or a name (FNV-1a): equal on every machine and in every version.
uint64_t stable_hash(std::string_view text);

// These functions convert 32 random bits to a float with 24 random bits. to_unit is uniform in [0, 1). to_open_unit is
// uniform in (0, 1], so that its logarithm is finite.
constexpr float to_unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }
constexpr float to_open_unit(uint32_t bits) { return static_cast<float>((bits >> 8) + 1) * 0x1.0p-24f; }

// A stream of random numbers with a key. `element` is a position in the stream. A block has four 32-bit draws. These
// are the keys:
//   operators: (seed, step, position in the global batch, hash of the operator path)
//   weights:   (seed, hash of the tensor path)
//   samples:   (seed, epoch, sample, stage); in a balanced order the number of earlier draws of the sample is used
//              in place of the epoch
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0);

  // The draws of one block: elements 4·block .. 4·block + 3.
  std::array<uint32_t, 4> block(uint64_t block) const { return philox(counter_of(block), key_); }
  // Fills `out` with consecutive blocks, starting with block `first`: out[4·i + j] = block(first + i)[j]. This is many
  // times faster than a call of block() for each.
  void fill(uint64_t first, std::span<uint32_t> out) const;
  uint32_t bits(uint64_t element) const { return block(element / 4)[element % 4]; }
  float uniform(uint64_t element) const { return to_unit(bits(element)); }
  float uniform(uint64_t element, float low, float high) const { return low + (high - low) * uniform(element); }
  // A standard normal number, by the Box–Muller transform of the draws 2·element and 2·element + 1.
  float normal(uint64_t element) const;
  // Sets out[i] = normal(first + i), bit for bit. This is many times faster than a call of normal() for each.
  void fill_normal(uint64_t first, std::span<float> out) const;
  // A whole number that is uniform in [0, n), made by a 64-bit multiplication; n >= 1.
  uint64_t below(uint64_t element, uint64_t n) const;

 private:
  std::array<uint32_t, 4> counter_of(uint64_t block) const {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(tweak_),
            static_cast<uint32_t>(tweak_ >> 32)};
  }

  uint64_t key_;
  uint64_t tweak_;
};

// A pseudo-random permutation of [0, n), evaluated point by point and never stored (Feistel network with cycle
// walking). Used for the order of samples in an epoch.
class Permutation {
 public:
  Permutation(uint64_t n, uint64_t seed, uint64_t stream);
  uint64_t operator()(uint64_t i) const;  // i < n
  uint64_t size() const { return n_; }

 private:
  uint64_t n_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace xrun
