// The memory of a program: its arenas, mapped, and where each buffer lies in them.
#pragma once

#include <vector>

#include "planner/program.h"
#include "runtime/executor/memory_arena.h"

namespace xrun::runtime {

class BoundMemory {
 public:
  // Maps every arena of the program, all of it or nothing. The program outlives it. Errors: kWorld.
  static Result<BoundMemory> map(const planner::Program& program);

  std::byte* at(const planner::Buffer& buffer) const;
  std::byte* at(planner::BufferId id) const { return at(program_->buffer(id)); }
  std::byte* at(int device, Bytes offset) const { return arenas_[static_cast<size_t>(device + 1)].at(offset); }
  Bytes bytes() const;  // of all arenas
  // The most that the process had held before the first arena was mapped.
  Bytes peak_before() const { return peak_before_; }

 private:
  const planner::Program* program_ = nullptr;
  Bytes peak_before_ = 0;
  std::vector<MemoryArena> arenas_;  // by device + 1: the host arena first
};

}  // namespace xrun::runtime
