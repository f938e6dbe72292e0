// Operands of stage passes and of whole buffers: the offset of a value at the first row block of an instruction, and
// the step from one row block to the next.
// Tests: tests/planner/emit/emit_test.cpp, tests/planner/verify/verify_module_test.cpp
#include <algorithm>

#include "graph/base/check.h"
#include "planner/emit/emitter.h"

namespace xrun::planner {

Operand Emitter::scratch_operand(BufferId scratch, Bytes offset, Bytes bytes) const {
  const Buffer& buffer = program_.buffer(scratch);
  return {.role = Role::kScratch,
          .access = Access::kWrite,
          .by = By::kWorker,
          .buffer = scratch,
          .offset = offset,
          .bytes = bytes,
          .step = buffer.bytes / program_.threads[static_cast<size_t>(buffer.device)]};
}

// Returns an operand for a value that is local to a pass. On GPUs its row blocks are contiguous.
Operand Emitter::local_operand(BufferId scratch, const LocalValue& local) const {
  if (!on_gpus()) {
    return scratch_operand(scratch, local.offset, local.bytes);
  }
  const TensorType& of = type(local.value);
  const Bytes block = of.bytes(program_.norm_rows, program_.norm_rows);
  return {.by = By::kBlock,
          .buffer = scratch,
          .offset = local.offset,
          .bytes = block,
          .step = of.has_batch() || of.per_block() ? block : 0};
}

Operand Emitter::whole(Role role, Access access, BufferId buffer) const {
  return {.role = role, .access = access, .buffer = buffer, .bytes = program_.buffer(buffer).bytes};
}

int64_t Emitter::first_row(const Buffer& buffer) const {
  if (buffer.micro_batch >= 0) {
    return buffer.micro_batch * program_.micro_batch_rows();
  }
  return buffer.replica < 0 ? 0 : program_.batch / program_.replicas * buffer.replica;
}

// Returns an operand for the row blocks of an instruction, the first of which begins at row `first` of the batch.
Operand Emitter::rows_operand(Role role, Access access, BufferId id, ValueId value, int64_t first) const {
  const Buffer& buffer = program_.buffer(id);
  const int64_t g = program_.norm_rows;
  Operand operand{.role = role, .access = access, .by = By::kBlock, .buffer = id};
  if (buffer.purpose == Purpose::kGradient) {
    operand.by = By::kPartial;
    operand.bytes = type(value).bytes(0, g);
    operand.step = buffer.bytes / program_.partials_of_replica();
    operand.offset = (program_.partial_of(first / g) - buffer.replica * program_.partials_of_replica()) * operand.step;
    return operand;
  }
  operand.bytes = operand.step = type(value).bytes(g, g);
  operand.offset = type(value).bytes(first - first_row(buffer), g);
  return operand;
}

// Returns an operand for all rows of a micro-batch, which an exchange sends or receives.
Operand Emitter::micro_batch_operand(Role role, Access access, BufferId id, ValueId value, int micro_batch) const {
  const int64_t first = program_.micro_batch_rows() * micro_batch - first_row(program_.buffer(id));
  return {.role = role,
          .access = access,
          .buffer = id,
          .offset = type(value).bytes(first, program_.norm_rows),
          .bytes = type(value).bytes(program_.micro_batch_rows(), program_.norm_rows)};
}

// Returns the operand for input `index` of a node of a stage pass. The input must not be local to the pass.
Operand Emitter::input_operand(const Instruction& instruction, NodeId node, size_t index) const {
  const ValueId value = graph_.node(node).inputs[index];
  const ParamId param = graph_.value(value).param;
  if (param.valid()) {
    const auto prepared = prepared_.find({instruction.device, node.index, static_cast<int>(index)});
    Operand operand = whole(Role::kInput, Access::kRead,
                            prepared != prepared_.end() ? prepared->second : weights_.at({param, instruction.device}));
    operand.param = param;
    return operand;
  }
  BufferId buffer = place(value, instruction.device, instruction.micro_batch);
  if (!buffer.valid()) {
    const auto input = inputs_.find(value);
    XRUN_CHECK(input != inputs_.end(), "a value without a place: " + name_of_value(value));
    buffer = input->second;
  }
  return rows_operand(Role::kInput, Access::kRead, buffer, value,
                      program_.micro_batch_rows() * instruction.micro_batch);
}

void Emitter::add_node_operands(Instruction& instruction, const BlockLayout& layout, BufferId scratch) {
  std::map<ValueId, const LocalValue*> locals;
  for (const LocalValue& local : layout.locals) {
    locals[local.value] = &local;
  }
  const int64_t first = program_.micro_batch_rows() * instruction.micro_batch;
  std::set<BufferId> zeroed;
  for (const NodeId id : instruction.nodes) {
    const Node& node = graph_.node(id);
    const auto add_operand = [&](Operand operand, Role role, Access access, size_t index) {
      operand.role = role;
      operand.access = access;
      operand.node = id;
      operand.index = static_cast<int32_t>(index);
      instruction.operands.push_back(operand);
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto local = locals.find(node.inputs[i]);
      add_operand(local == locals.end() ? input_operand(instruction, id, i) : local_operand(scratch, *local->second),
                  Role::kInput, Access::kRead, i);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto local = locals.find(node.outputs[i]);
      if (local != locals.end()) {
        add_operand(local_operand(scratch, *local->second), Role::kOutput, Access::kWrite, i);
        continue;
      }
      const BufferId buffer = place(node.outputs[i], instruction.device, instruction.micro_batch);
      XRUN_CHECK(buffer.valid(), "a result without a place: " + name_of_value(node.outputs[i]));
      add_operand(rows_operand(Role::kOutput, Access::kWrite, buffer, node.outputs[i], first), Role::kOutput,
                  Access::kWrite, i);
      if (program_.buffer(buffer).purpose == Purpose::kGradient && zeroed_.insert(buffer).second) {
        zeroed.insert(buffer);
      }
    }
  }
  std::vector<Operand> begun;
  for (const BufferId buffer : zeroed) {
    begun.push_back(whole(Role::kZeroed, Access::kWrite, buffer));
  }
  instruction.operands.insert(instruction.operands.begin(), begun.begin(), begun.end());
}

}  // namespace xrun::planner
