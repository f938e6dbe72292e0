#include "runtime/executor/bound_memory.h"

#include "graph/base/check.h"
#include "runtime/device/host.h"

namespace xrun::runtime {

Result<BoundMemory> BoundMemory::map(const planner::Program& program) {
  BoundMemory memory;
  memory.program_ = &program;
  memory.peak_before_ = peak_resident();
  memory.arenas_.resize(static_cast<size_t>(program.devices) + 1);
  for (const planner::Arena& arena : program.arenas) {
    XRUN_ASSIGN(memory.arenas_[static_cast<size_t>(arena.device + 1)], MemoryArena::map(arena.bytes));
  }
  for (const planner::Buffer& buffer : program.buffers) {
    XRUN_CHECK(buffer.offset >= 0 &&
                   buffer.offset + buffer.bytes <= memory.arenas_[static_cast<size_t>(buffer.device + 1)].bytes(),
               "buffer " + buffer.name + " lies outside of its arena");
  }
  return memory;
}

std::byte* BoundMemory::at(const planner::Buffer& buffer) const {
  return arenas_[static_cast<size_t>(buffer.device + 1)].at(buffer.offset);
}

Bytes BoundMemory::bytes() const {
  Bytes total = 0;
  for (const MemoryArena& arena : arenas_) {
    total += arena.bytes();
  }
  return total;
}

}  // namespace xrun::runtime
