#include "runtime/executor/exchanges.h"

#include "graph/compression.h"

namespace xrun::runtime {

using planner::Instruction;
using planner::Operand;
using planner::Role;

std::vector<Exchange> exchanges_of(const planner::Program& program, const BoundMemory& memory, int rank) {
  std::vector<Exchange> exchanges;
  for (const Instruction& instruction : program.instructions) {
    if (!communicates(instruction.kind) || program.rank_of(instruction.device) != rank) {
      continue;
    }
    Exchange exchange{.group = instruction.group, .device = instruction.device};
    for (const Operand& operand : instruction.operands) {
      const planner::Buffer& buffer = program.buffer(operand.buffer);
      auto& blocks = operand.role == Role::kSent ? exchange.sends : exchange.receives;
      blocks.push_back(
          {operand.index, &memory.arena(instruction.device), buffer.offset + operand.offset, operand.bytes});
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
      Block& block = operand.role == Role::kSent ? *sent++ : *received++;
      const planner::Buffer& buffer = program.buffer(operand.buffer);
      if (buffer.purpose == planner::Purpose::kPairs) {
        const int64_t count = graph.value(graph.param(buffer.param).value).type.elements(0, 0);
        block.bytes = pairs_of(count, density) * static_cast<Bytes>(sizeof(GradientPair));
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
