#include "runtime/executor/binding.h"

#include <algorithm>

#include "graph/base/check.h"
#include "runtime/executor/row_offsets.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Instruction;
using planner::Pass;
using planner::Purpose;

// Pointers before a buffer are only numbers until a block inside of it is added.
std::byte* back_by(std::byte* base, Bytes bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) - static_cast<uintptr_t>(bytes));
}

}  // namespace

Binder::Binder(const Graph& graph, const planner::Program& program, const BoundMemory& memory, const KernelSet& kernels)
    : graph_(graph),
      program_(program),
      memory_(memory),
      kernels_(kernels),
      watched_(graph.values.size(), false),
      first_backward_(program.buffers.size()) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.purpose == Purpose::kPrepared) {
      prepared_[buffer.node].push_back(&buffer);
    } else if (buffer.param.valid()) {
      by_param_[buffer.param].push_back(&buffer);
    }
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    inputs_[graph.inputs[i].value] = static_cast<int32_t>(i);
  }
  for (const Instruction& instruction : program.instructions) {
    for (const planner::BufferId id : instruction.writes) {
      planner::InstructionId& first = first_backward_[static_cast<size_t>(id.index)];
      first = first.valid() || instruction.pass != Pass::kBackward ? first : instruction.id;
    }
  }
  const auto watch = [&](ValueId value) {
    if (value.valid()) {
      watched_[static_cast<size_t>(value.index)] = true;
    }
  };
  watch(graph.loss);
  for (const planner::HeadPlan& head : program.heads) {
    watch(head.feature);
  }
  for (const planner::Stage& stage : program.stages) {
    std::for_each(stage.received.begin(), stage.received.end(), watch);
  }
}

const Buffer* Binder::find_param(ParamId param, Purpose purpose, int replica, int slot, int shard) const {
  const auto at = by_param_.find(param);
  if (at == by_param_.end()) {
    return nullptr;
  }
  for (const Buffer* buffer : at->second) {
    if (buffer->purpose == purpose && buffer->slot == slot &&
        (shard >= 0 ? buffer->shard == shard : buffer->replica == replica)) {
      return buffer;
    }
  }
  return nullptr;
}

int Binder::input_of(ValueId value) const {
  const auto at = inputs_.find(value);
  return at == inputs_.end() ? -1 : at->second;
}

Operand Binder::operand_of(const Buffer& buffer) const {
  const TensorType& type = graph_.value(buffer.value).type;
  Operand operand;
  if (buffer.purpose == Purpose::kGradient) {
    const int64_t partials = program_.partials / program_.replicas;
    operand.where = Operand::Where::kPartial;
    operand.stride = buffer.bytes / partials;
    operand.base = back_by(memory_.at(buffer), operand.stride * partials * buffer.replica);
    return operand;
  }
  operand.stride = type.bytes(program_.block_rows, program_.block_rows);
  if (buffer.purpose == Purpose::kInput) {
    operand.where = Operand::Where::kInput;
    operand.input = input_of(buffer.value);
    return operand;
  }
  operand.where = Operand::Where::kBlock;
  operand.base = back_by(memory_.at(buffer), operand.stride * (first_row(program_, buffer) / program_.block_rows));
  return operand;
}

Operand Binder::find_operand(const Instruction& instruction, const planner::BlockLayout& layout, NodeId node, int input,
                             ValueId value) const {
  for (const planner::LocalValue& local : layout.locals) {
    if (local.value == value) {
      return {.where = Operand::Where::kScratch, .offset = local.offset};
    }
  }
  const ParamId param = graph_.value(value).param;
  if (!param.valid()) {
    const Buffer* buffer = find_value(program_, instruction, value);
    return buffer == nullptr ? Operand() : operand_of(*buffer);
  }
  if (const auto prepared = prepared_.find(node); prepared != prepared_.end()) {
    for (const Buffer* buffer : prepared->second) {
      if (buffer->slot == input && buffer->replica == instruction.replica) {
        return {.where = Operand::Where::kFixed, .base = memory_.at(*buffer)};
      }
    }
  }
  for (const Purpose purpose : {Purpose::kWeight, Purpose::kState}) {
    if (const Buffer* buffer = find_param(param, purpose, instruction.replica)) {
      return {.where = Operand::Where::kFixed, .base = memory_.at(*buffer)};
    }
  }
  return {};
}

BoundPass Binder::bind(const Instruction& instruction) const {
  const planner::Stage& stage = program_.stages[static_cast<size_t>(instruction.stage)];
  const bool forward = instruction.pass == Pass::kForward;
  const planner::BlockLayout& layout = forward ? stage.forward_layout : stage.backward_layout;
  BoundPass pass;
  pass.device = instruction.device;
  pass.blocks = program_.micro_batch_rows() / program_.block_rows;
  pass.first_block = pass.blocks * instruction.micro_batch;
  pass.kernel_offset = layout.kernel_offset;
  pass.slice = align_up(layout.bytes);
  if (const Buffer* scratch = find_purpose(program_, instruction, Purpose::kScratch)) {
    const int64_t workers = program_.threads[static_cast<size_t>(instruction.device)];
    pass.scratch = memory_.at(*scratch);
    XRUN_CHECK(pass.slice * workers <= scratch->bytes, "the scratch of a stage is too small");
  }
  XRUN_CHECK(pass.scratch != nullptr || layout.bytes == 0, "a stage pass without scratch");
  for (const planner::BufferId id : instruction.writes) {
    const Buffer& buffer = program_.buffer(id);
    const bool first = first_backward_[static_cast<size_t>(id.index)] == instruction.id;
    if (buffer.purpose == Purpose::kGradient && first) {
      pass.zeroed.push_back({memory_.at(buffer), static_cast<size_t>(buffer.bytes)});
    }
  }
  for (const NodeId id : instruction.nodes) {
    const Node& node = graph_.node(id);
    BoundNode bound{id, kernels_.of(id), static_cast<int32_t>(pass.operands.size()),
                    static_cast<int32_t>(node.inputs.size()), static_cast<int32_t>(node.outputs.size())};
    XRUN_CHECK(bound.kernel != nullptr, "a stage runs a node without a kernel: " + node.path);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Operand operand = find_operand(instruction, layout, id, static_cast<int>(i), node.inputs[i]);
      XRUN_CHECK(operand.where != Operand::Where::kAbsent, "no place for input " + std::to_string(i) + " (" +
                                                               graph_.value(node.inputs[i]).name + ") of `" +
                                                               node.path + "` " + std::string(node.op->name));
      pass.operands.push_back(operand);
    }
    for (const ValueId output : node.outputs) {
      pass.operands.push_back(find_operand(instruction, layout, id, -1, output));
      if (forward && watched_[static_cast<size_t>(output.index)] &&
          pass.operands.back().where == Operand::Where::kBlock) {
        pass.watched.push_back(pass.operands.back());
        pass.watched_values.push_back(output);
      }
    }
    pass.nodes.push_back(bound);
  }
  return pass;
}

}  // namespace xrun::runtime
