#include "runtime/train/session/rows_read.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun::runtime {

using planner::Buffer;
using planner::By;
using planner::Instruction;
using planner::Operand;

std::vector<RowRange> rows_read(const Graph& graph, const planner::Program& program, const BoundMemory& memory) {
  std::vector<RowRange> rows(graph.inputs.size());
  const int64_t blocks = program.micro_batch_rows() / program.norm_rows;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.device == planner::kHost || !memory.has(instruction.device)) {
      continue;
    }
    for (const Operand& operand : instruction.operands) {
      const Buffer& buffer = program.buffer(operand.buffer);
      const auto input = std::ranges::find(graph.inputs, buffer.value, &NamedValue::value);
      if (buffer.purpose != planner::Purpose::kInput || input == graph.inputs.end()) {
        continue;
      }
      XRUN_CHECK(operand.by == By::kNothing || operand.by == By::kBlock, "inputs are read as a whole or by row blocks");
      const Bytes steps = operand.by == By::kBlock ? operand.step * (blocks - 1) : 0;
      const Bytes row = graph.value(buffer.value).type.bytes(1, program.norm_rows);
      const RowRange read{operand.offset / row, (operand.offset + steps + operand.bytes + row - 1) / row};
      RowRange& all = rows[static_cast<size_t>(input - graph.inputs.begin())];
      all = all == RowRange{} ? read : RowRange{std::min(all.begin, read.begin), std::max(all.end, read.end)};
    }
  }
  return rows;
}

}  // namespace xrun::runtime
