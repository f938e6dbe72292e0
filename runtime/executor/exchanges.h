// What exchanges give and take, found once when a program is bound: the blocks that each member publishes, and where
// every other member puts them.
#pragma once

#include <span>
#include <vector>

#include "ops/head.h"
#include "planner/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/head_set.h"

namespace xrun::runtime {

// The part of one member.
struct BoundExchange {
  // A published block of another member (or of this one) and its place here.
  struct Copy {
    int32_t member = 0;
    int32_t block = 0;
    std::byte* to = nullptr;
  };
  // The gradient of a head's feature from the partials of all shards.
  struct Reduce {
    const ops::HeadJoin* join = nullptr;
    std::vector<Copy> shards;                 // by shard; member -1: an empty one
    std::vector<const std::byte*> gradients;  // by shard; room for the pull
    const std::byte* features = nullptr;      // row 0 of the pass, which may lie before the buffer
    int64_t row_begin = 0;                    // of the pass
    int64_t row_end = 0;
    std::byte* out = nullptr;
  };

  std::vector<std::span<std::byte>> send;
  std::vector<Copy> copies;
  std::vector<Reduce> reduces;
  bool sums = false;  // all-reduce in place
};

class Exchanges {
 public:
  Exchanges(const Graph& graph, const planner::Program& program, const Binder& binder, const HeadSet& heads);

  // Fills blocks and combine of `exchange`.
  void prepare(const planner::Instruction& instruction, Exchange& exchange);

 private:
  using Members = std::vector<planner::InstructionId>;

  void publish(const planner::Instruction& instruction);
  void bind_copies(const planner::Instruction& instruction, const Members& members);
  void bind_reduce(const planner::Instruction& instruction, const Members& members);

  static Status combine(void* context, const Exchange& exchange, Published parts);

  const Graph& graph_;
  const planner::Program& program_;
  const Binder& binder_;
  const HeadSet& heads_;
  std::vector<BoundExchange> bound_;  // by instruction
};

}  // namespace xrun::runtime
