// Tests: tests/runtime/executor/executor_test.cpp, tests/planner/program/instruction_test.cpp
#include "runtime/executor/exchanges.h"

#include <deque>
#include <map>
#include <tuple>

#include "graph/base/check.h"
#include "graph/layouts/compression.h"

namespace xrun::runtime {

using planner::Instruction;
using planner::Operand;
using planner::Role;

namespace {

// The source offsets of the blocks that each member sends to each member on a rank, in the order of its operands.
class Sources {
 public:
  Sources(const planner::Program& program, int rank) {
    for (const Instruction& instruction : program.instructions) {
      for (const Operand& operand : instruction.operands) {
        const bool sent = communicates(instruction.kind) && operand.role == Role::kSent;
        for (int k = 0; sent && k < operand.count; ++k) {
          const int to = operand.device(k);
          if (program.rank_of(to) == rank) {
            sent_[{instruction.group, instruction.device, to}].push_back(program.buffer(operand.buffer).offset +
                                                                         operand.place(k));
          }
        }
      }
    }
  }
  // Returns the source offset of the next block that `to` receives from `from`.
  Bytes next(int group, int from, int to) {
    auto& offsets = sent_[{group, from, to}];
    XRUN_CHECK(!offsets.empty(), "more blocks are received than sent");
    const Bytes offset = offsets.front();
    offsets.pop_front();
    return offset;
  }

 private:
  std::map<std::tuple<int, int, int>, std::deque<Bytes>> sent_;  // key: group, sending and receiving device
};

}  // namespace

std::vector<Exchange> exchanges_of(const planner::Program& program, const BoundMemory& memory, int rank) {
  Sources sources(program, rank);
  std::vector<Exchange> exchanges;
  for (const Instruction& instruction : program.instructions) {
    if (!communicates(instruction.kind) || program.rank_of(instruction.device) != rank) {
      continue;
    }
    Exchange exchange{.group = instruction.group, .device = instruction.device};
    for (const Operand& operand : instruction.operands) {
      const bool sent = operand.role == Role::kSent;
      for (int k = 0; k < operand.count; ++k) {
        const int peer = operand.device(k);
        const Bytes offset = program.buffer(operand.buffer).offset + operand.place(k);
        (sent ? exchange.sends : exchange.receives)
            .push_back({peer, &memory.arena(instruction.device), offset, operand.bytes,
                        sent ? offset : sources.next(instruction.group, peer, instruction.device)});
      }
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

void set_density(const planner::Program& program, const Graph& graph, double density, int rank,
                 std::vector<Exchange>& exchanges) {
  auto exchange = exchanges.begin();
  for (const Instruction& instruction : program.instructions) {
    if (!communicates(instruction.kind) || program.rank_of(instruction.device) != rank) {
      continue;
    }
    auto sent = exchange->sends.begin();
    auto received = exchange->receives.begin();
    for (const Operand& operand : instruction.operands) {
      const planner::Buffer& buffer = program.buffer(operand.buffer);
      for (int k = 0; k < operand.count; ++k) {
        Block& block = operand.role == Role::kSent ? *sent++ : *received++;
        if (buffer.purpose == planner::Purpose::kPairs) {
          const int64_t count = graph.value(graph.param(buffer.param).value).type.elements(0, 0);
          block.bytes = pairs_of(count, density) * static_cast<Bytes>(sizeof(GradientPair));
        }
      }
    }
    ++exchange;
  }
}

std::vector<std::vector<planner::InstructionId>> groups_of(const planner::Program& program) {
  std::vector<std::vector<planner::InstructionId>> groups;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.group >= 0) {
      groups.resize(std::max(groups.size(), static_cast<size_t>(instruction.group) + 1));
      groups[static_cast<size_t>(instruction.group)].push_back(instruction.id);
    }
  }
  return groups;
}

}  // namespace xrun::runtime
