// Checks the memory plan while a program runs: the bytes of a buffer may be accessed only from its first to its last
// use. It is slow, and used in tests of plans.
#pragma once

#include <mutex>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/program.h"
#include "runtime/device/bound_memory.h"

namespace xrun::runtime {

// The event that ends an access of an exchange: it has received its blocks, or its sent blocks were released. An
// instruction that computes ends with kBoth.
enum class AccessEnd : uint8_t { kReceived = 1, kReleased = 2, kBoth = 3 };

// Fills the bytes outside live buffers with a pattern (all bits set, which is NaN in every float format). A kernel that
// reads such bytes computes NaN. A write to them is detected when the next buffer begins there, or at the end of the
// step. Buffers that live across steps are not checked.
//
// Threads: any calls `begin` and `end`. Errors: XG0626, with the instruction and the buffer.

class ArenaCheck {
 public:
  // Both arguments outlive the check.
  ArenaCheck(const planner::Program& program, const BoundMemory& memory);

  void begin_step();
  // Call before an instruction accesses memory; for an exchange, before it is posted.
  Status begin(const planner::Instruction& instruction);
  // Call after the last access of an instruction; for an exchange, call it once for each of the two events.
  Status end(const planner::Instruction& instruction, AccessEnd event);
  // Call after all instructions: checks that only results are still live, and that no other byte was written.
  Status end_step();

 private:
  struct Extent {
    Bytes begin = 0;
    Bytes end = 0;
  };
  struct Watched {
    bool watched = false;  // whether the buffer is checked: not persistent, on a device
    bool kept = false;     // whether it is live until the end of the step: a result
    int32_t touches = 0;   // number of instructions that read or write it
    int32_t left = 0;      // number of these that have not ended in this step
    bool alive = false;
  };

  Extent extent(const planner::Buffer& buffer) const;
  void fill(int device, Extent extent) const;
  // Returns the offset of the first byte of `extent` without the pattern; extent.end if all its bytes have the pattern.
  Bytes first_touched(int device, Extent extent);
  Status first_touch(const planner::Instruction& instruction, const planner::Buffer& buffer);
  void leave(planner::BufferId id);

  const planner::Program& program_;
  const BoundMemory& memory_;
  std::vector<std::vector<planner::BufferId>> named_;      // index: instruction; buffers that it accesses, each once
  std::vector<std::vector<planner::BufferId>> on_device_;  // index: device; buffers that are checked
  std::vector<std::vector<Extent>> between_;               // index: device; all bytes outside persistent buffers
  std::mutex mutex_;                                       // guards all members below
  std::vector<Watched> buffers_;
  std::vector<uint8_t> ended_;  // index: instruction; events in this step so far
  std::vector<std::byte> staging_;
};

}  // namespace xrun::runtime
