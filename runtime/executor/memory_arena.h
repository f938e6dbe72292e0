// One mapping of memory: all that a device computes in, at offsets that the planner has chosen.
#pragma once

#include <cstddef>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

class MemoryArena {
 public:
  // Maps `bytes` zeroed bytes, aligned to a page and advised to huge pages. Errors: kWorld when the system refuses.
  static Result<MemoryArena> map(Bytes bytes);

  MemoryArena() = default;
  ~MemoryArena();
  MemoryArena(MemoryArena&& other) noexcept;
  MemoryArena& operator=(MemoryArena&& other) noexcept;

  std::byte* at(Bytes offset) const { return base_ + offset; }
  Bytes bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace xrun::runtime
