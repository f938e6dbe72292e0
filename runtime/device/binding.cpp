#include "runtime/device/binding.h"

namespace xrun::runtime {

Binder::Binder(const Graph& graph, const planner::Program& program, const BoundMemory& memory)
    : program_(program), memory_(memory) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    inputs_[graph.inputs[i].value] = static_cast<int32_t>(i);
  }
}

OperandAddress Binder::address(const planner::Operand& operand) const {
  const planner::Buffer& buffer = program_.buffer(operand.buffer);
  if (buffer.purpose == planner::Purpose::kInput) {
    return {.input = inputs_.at(buffer.value), .offset = operand.offset};
  }
  return {.base = at(operand)};
}

}  // namespace xrun::runtime
