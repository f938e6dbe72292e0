// The buffers of the loader's batches on the host, and the copies from them to GPUs.
// Tests: tests/planner/emit/gpu_programs_test.cpp
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// Adds the host buffers for the inputs that stages and heads read, one for each position of the loader's ring.
void Emitter::add_inputs() {
  std::set<ValueId> read;
  for (const StageFlow& flow : flow_.stages) {
    read.insert(flow.inputs_forward.begin(), flow.inputs_forward.end());
    read.insert(flow.inputs_backward.begin(), flow.inputs_backward.end());
  }
  for (const HeadPlan& head : program_.heads) {
    read.insert(head.feature);
    read.insert(head.label);
    read.insert(head.row_factor);
  }
  for (const NamedValue& input : graph_.inputs) {
    if (!read.contains(input.value)) {
      continue;
    }
    for (int position = 0; position < request_.input_ring; ++position) {
      const BufferId id = add_buffer({.device = kHost,
                                      .purpose = Purpose::kInput,
                                      .bytes = type(input.value).bytes(program_.batch, program_.norm_rows),
                                      .persistent = true,
                                      .value = input.value,
                                      .ring = position,
                                      .replica = -1,
                                      .name = input.name + "." + std::to_string(position)});
      if (position == 0) {
        inputs_[input.value] = id;
      }
    }
  }
}

// Emits the copy of the inputs that a pass on a GPU reads and that its device does not have yet.
void Emitter::emit_input_copies(const Instruction& pass) {
  Instruction copy{.kind = Kind::kCopy,
                   .device = pass.device,
                   .stage = pass.stage,
                   .replica = pass.replica,
                   .micro_batch = pass.micro_batch};
  for (const NodeId node : pass.nodes) {
    for (const ValueId value : graph_.node(node).inputs) {
      const auto input = inputs_.find(value);
      if (input == inputs_.end() || place(value, pass.device, pass.micro_batch).valid()) {
        continue;
      }
      const BufferId to = add_activation(value, pass.device, pass.replica, pass.micro_batch);
      copy.operands.push_back(micro_batch_operand(Role::kFrom, Access::kRead, input->second, value, pass.micro_batch));
      copy.operands.push_back(micro_batch_operand(Role::kTo, Access::kWrite, to, value, pass.micro_batch));
      copy.bytes += copy.operands.back().bytes;
    }
  }
  if (!copy.operands.empty()) {
    add(std::move(copy));
  }
}

}  // namespace xrun::planner
