// XXH3-128 of bytes: as 32 hex digits, which name the contents of files in checkpoints, or as 16 bytes; and XXH3-64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace xrun {

class Xxh128 {
 public:
  Xxh128();  // throws std::bad_alloc
  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

std::string xxh128(std::span<const std::byte> bytes);

// The canonical, big-endian bytes of a digest; allocates nothing.
std::array<std::byte, 16> xxh128_bytes(std::span<const std::byte> bytes);

// XXH3-64 of bytes with a seed, as XXH3_64bits_withSeed of the xxHash library; allocates nothing.
uint64_t xxh3_64(std::span<const std::byte> bytes, uint64_t seed);

}  // namespace xrun
