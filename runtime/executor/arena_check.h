// A watch over the memory plan while a program runs: the bytes of a buffer are touched from its first to its last use
// and at no other time. For tests of plans; a run that is measured has none.
#pragma once

#include <mutex>
#include <vector>

#include "graph/base/result.h"
#include "planner/program.h"
#include "runtime/device/bound_memory.h"

namespace xrun::runtime {

// Bytes that no living buffer has are filled with a pattern (all bits set: NaN in every float). Whoever reads them
// gives NaN as a result; whoever writes them is found when the next buffer begins there, or at the end of the step.
// Buffers that live across steps are left alone.
//
// Threads: `begin` and `end` may be called by any of them. Errors, XG0626: which instruction, which buffer.
enum class Event : uint8_t { kReceived = 1, kReleased = 2, kBoth = 3 };

class ArenaCheck {
 public:
  // Both outlive the watch.
  ArenaCheck(const planner::Program& program, const BoundMemory& memory);

  void begin_step();
  // Before an instruction touches anything; for an exchange, before it is posted.
  Status begin(const planner::Instruction& instruction);
  // After its last touch; of an exchange, of what it receives, or sends.
  Status end(const planner::Instruction& instruction, Event event);
  // After all instructions: everything but results is dead, and nobody has written to dead bytes.
  Status end_step();

 private:
  struct Extent {
    Bytes begin = 0;
    Bytes end = 0;
  };
  struct Watched {
    bool watched = false;  // not persistent, on a device
    bool kept = false;     // until the end of the step, for whoever reads results
    int32_t touches = 0;   // instructions that name it
    int32_t left = 0;      // of them, in this step
    bool alive = false;
  };

  Extent extent(const planner::Buffer& buffer) const;
  void fill(int device, Extent extent) const;
  // Offset of the first byte without the pattern; extent.end when there is none.
  Bytes first_touched(int device, Extent extent);
  Status first_touch(const planner::Instruction& instruction, const planner::Buffer& buffer);
  void leave(planner::BufferId id);

  const planner::Program& program_;
  const BoundMemory& memory_;
  std::vector<std::vector<planner::BufferId>> named_;      // by instruction: what it touches, each once
  std::vector<std::vector<planner::BufferId>> on_device_;  // watched ones
  std::vector<std::vector<Extent>> between_;               // by device: all bytes but the persistent ones
  std::mutex mutex_;                                       // guards what follows
  std::vector<Watched> buffers_;
  std::vector<uint8_t> ended_;  // by instruction: events that have come about
  std::vector<std::byte> staging_;
};

}  // namespace xrun::runtime
