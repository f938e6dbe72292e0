// An arena in the host's memory: one mapping, in which buffers are at offsets that the planner has chosen.
#pragma once

#include <cstddef>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

class HostMemory {
 public:
  // Maps `bytes` zeroed bytes, aligned to a page, and asks the system for huge pages. After them, from the next
  // multiple of kMappedAlignment on, follow `behind` bytes of address space over which files will be mapped. Errors:
  // kWorld if the system refuses.
  static Result<HostMemory> map(Bytes bytes, Bytes behind = 0);

  HostMemory() = default;
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  std::byte* at(Bytes offset) const { return base_ + offset; }
  Bytes bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace xrun::runtime
