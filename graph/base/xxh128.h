// XXH3-128 of bytes: as 32 hex digits, which name the contents of files in checkpoints, or as 16 bytes.
#pragma once

#include <array>
#include <cstddef>
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

}  // namespace xrun
