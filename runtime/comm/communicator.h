// How devices exchange data: every operation is posted and completes later by a call; no task ever waits
// (docs/determinism.md, "Collectives"). Devices of one process use local_communicator.h; MPI and NCCL fill the same
// interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/result.h"

namespace xrun::runtime {

// Pieces of memory: what a member gives or takes may lie in several buffers.
using Pieces = std::span<const std::span<std::byte>>;
// What each member of a group has published, by member. Only an all-reduce writes there: each member its own slice of
// the elements, in all parts, so that the sum is in place everywhere when all have pulled.
using Published = std::span<const Pieces>;

// One member's part in one operation. What it publishes stays untouched until the operation is complete.
struct Exchange {
  enum class Kind : uint8_t { kSend, kRecv, kAllGather, kReduceScatter, kAllReduce };
  Kind kind = Kind::kSend;
  int group = 0;   // operations with one number belong together, once a step
  int member = 0;  // 0 .. members - 1; of a send 0, of a receive 1
  int members = 1;
  int device = 0;
  Pieces send;
  Pieces recv;

  // How `recv` comes from what all have published, in member order, on this member's device: a fixed order of sums, a
  // layout of gathered rows. Null: nothing to do for this member (a send).
  Status (*combine)(void* context, const Exchange& exchange, Published parts) = nullptr;
  void* context = nullptr;
};

// Called once when an operation is complete for its member: everything received, `send` free again.
struct Completion {
  void (*done)(void* context, int32_t argument, Status status) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// Threads: `post` may be called from any task.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void post(const Exchange& exchange, Completion completion) = 0;
};

// Sums f32 pieces over the members by the fixed tree (fold.h), in place in all of them. The usual `combine` of
// kAllReduce.
Status sum_f32(void* context, const Exchange& exchange, Published parts);

}  // namespace xrun::runtime
