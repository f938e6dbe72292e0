// XXH3-128 over a stream of bytes, as 32 hex digits: what checkpoints name their files' contents by.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace xrun {

class Xxh128 {
 public:
  Xxh128();
  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

std::string xxh128(std::span<const std::byte> bytes);

}  // namespace xrun
