// Converts the operands of a program to addresses.
#pragma once

#include <span>
#include <unordered_map>

#include "graph/graph.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "runtime/device/bound_memory.h"

namespace xrun::runtime {

// The start of an operand: an address in an arena, or an offset in an input, whose address changes in each step.
struct OperandAddress {
  int32_t input = -1;  // index in Graph::inputs; -1: the operand is in an arena, at `base`
  std::byte* base = nullptr;
  Bytes offset = 0;

  std::byte* at(const StepContext& step) const {
    return input < 0 ? base : step.inputs[static_cast<size_t>(input)] + offset;
  }
};

// Threads: immutable.
class Binder {
 public:
  // All arguments outlive the binder.
  Binder(const Graph& graph, const planner::Program& program, const BoundMemory& memory);

  OperandAddress address(const planner::Operand& operand) const;
  // The address of an operand. REQUIRES: it lies in an arena.
  std::byte* at(const planner::Operand& operand) const { return memory_.at(operand.buffer) + operand.offset; }
  template <typename T>
  T* at(const planner::Operand& operand) const {
    return reinterpret_cast<T*>(at(operand));
  }

 private:
  const planner::Program& program_;
  const BoundMemory& memory_;
  std::unordered_map<ValueId, int32_t> inputs_;  // index in Graph::inputs
};

}  // namespace xrun::runtime
