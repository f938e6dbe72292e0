// What communications give and take, found once when a program is bound: which rows of which buffers each member
// publishes, and where every other member puts them.
#pragma once

#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/head.h"
#include "planner/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/bound_memory.h"
#include "runtime/executor/head_set.h"
#include "runtime/executor/norm_layout.h"

namespace xrun::runtime {

// A communication of one member.
struct BoundExchange {
  // A published piece of another member (or of this one) and its place here.
  struct Copy {
    int32_t member = 0;
    int32_t piece = 0;
    std::byte* to = nullptr;
  };
  // A piece that lies in the loader's slot of the step.
  struct FromInput {
    int32_t piece = 0;
    int32_t input = 0;
    Bytes offset = 0;
  };
  // The gradient of a head's feature from the partials of all shards.
  struct Reduce {
    const ops::HeadJoin* join = nullptr;
    std::vector<Copy> shards;                 // by shard; member -1: an empty one
    std::vector<const std::byte*> gradients;  // by shard; room for the pull
    const std::byte* features = nullptr;      // row 0 of the pass, which may lie before the buffer
    int64_t row_begin = 0;
    int64_t row_end = 0;
    std::byte* out = nullptr;
  };

  std::vector<std::span<std::byte>> send;
  std::vector<FromInput> from_input;
  std::vector<Copy> copies;
  std::vector<Reduce> reduces;
  bool sums = false;  // all-reduce in place
};

class Exchanges {
 public:
  Exchanges(const Graph& graph, const planner::Program& program, const BoundMemory& memory, const Binder& binder,
            const HeadSet& heads, const NormLayout& norms);

  // Fills pieces and combine of `exchange`; `inputs` are the slots of the step.
  void prepare(const planner::Instruction& instruction, std::span<std::byte* const> inputs, Exchange& exchange);

 private:
  // One published piece: which part of which whole.
  struct Piece {
    ValueId value;
    planner::Purpose purpose{};
    int64_t first = 0;     // batch statistics: row; head parts: shard; norms: index
    int micro_batch = -1;  // rows of a value
  };

  void publish(const planner::Instruction& instruction);
  void publish_value(const planner::Instruction& instruction, const planner::Buffer& buffer);
  void publish_norms(const planner::Instruction& instruction, const planner::Buffer& buffer);
  void place(const planner::Instruction& instruction, const std::vector<planner::InstructionId>& members);
  std::byte* place_of(const planner::Instruction& instruction, const planner::Buffer& buffer, const Piece& piece) const;
  void bind_reduce(const planner::Instruction& instruction, const planner::Buffer& out,
                   const std::vector<planner::InstructionId>& members);
  void add(const planner::Instruction& instruction, std::byte* data, Bytes bytes, Piece piece);

  static Status copy(void* context, const Exchange& exchange, Published parts);

  const Graph& graph_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const Binder& binder_;
  const HeadSet& heads_;
  const NormLayout& norms_;
  std::vector<BoundExchange> bound_;        // by instruction
  std::vector<std::vector<Piece>> pieces_;  // by instruction, of its `send`
};

}  // namespace xrun::runtime
