// Emits stages: their persistent buffers, their passes, and the exchanges of values and batch statistics.
// Tests: tests/planner/emit/emit_test.cpp
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

void Emitter::fill_stages() {
  const int64_t g = decision_.norm_rows;
  const int64_t rows = program_.micro_batch_rows();
  for (Stage& stage : program_.stages) {
    const StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
    stage.saved = flow.saved;
    stage.received.clear();
    stage.activation_bytes = 0;
    for (const Crossing& crossing : flow_.crossings) {
      if (crossing.to == stage.index && !crossing.backward) {
        stage.received.push_back(crossing.value);
        // Stages of one device share their buffers.
        const bool is_sent = stage.devices != this->stage(crossing.from).devices;
        stage.activation_bytes += is_sent ? align_up(type(crossing.value).bytes(rows, g)) : 0;
      }
    }
    for (const ValueId value : flow.saved) {
      stage.activation_bytes += align_up(type(value).bytes(rows, g));
    }
    stage.parameter_bytes = 0;
    for (const ParamId param : flow.params) {
      const bool has_copy = holder(param, stage.index) == param;
      stage.parameter_bytes += has_copy ? align_up(type(graph_.param(param).value).bytes(0, g)) : 0;
    }
    forward_layouts_.push_back(
        layout_block(graph_, request_.facts, stage.forward, flow.forward_locals, local_rows(), g));
    std::vector<NodeId> nodes = stage.recomputed;
    nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
    backward_layouts_.emplace_back();
    if (program_.training && !nodes.empty()) {
      backward_layouts_.back() = layout_block(graph_, request_.facts, nodes, flow.backward_locals, local_rows(), g);
    }
  }
  split_passes();
  cut_last_pass();
}

void Emitter::add_parameters() {
  for (const Stage& stage : program_.stages) {
    for (int replica = 0; replica < program_.replicas; ++replica) {
      for (const ParamId param : flow_.stages[static_cast<size_t>(stage.index)].params) {
        add_parameter(param, stage.index, replica);
      }
      std::vector<NodeId> nodes = stage.forward;
      if (program_.training) {
        nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
      }
      for (const NodeId node : nodes) {
        if (static_cast<size_t>(node.index) >= request_.facts.nodes.size()) {
          continue;
        }
        const auto& bytes = request_.facts.nodes[static_cast<size_t>(node.index)].prepared;
        for (size_t input = 0; input < bytes.size(); ++input) {
          if (bytes[input] <= 0) {
            continue;
          }
          const Value& value = graph_.value(graph_.node(node).inputs[input]);
          const int device = device_of(stage.index, replica);
          prepared_[{device, node.index, static_cast<int>(input)}] =
              add_buffer({.device = device,
                          .purpose = Purpose::kPrepared,
                          .bytes = bytes[input],
                          .persistent = true,
                          .param = holder(value.param, stage.index),
                          .node = node,
                          .node_input = static_cast<int32_t>(input),
                          .replica = replica,
                          .name = value.name + ".prepared"});
        }
      }
    }
  }
}

void Emitter::add_parameter(ParamId param, int stage_index, int replica) {
  const Parameter& what = graph_.param(param);
  const int device = device_of(stage_index, replica);
  if (const ParamId held = holder(param, stage_index); held != param) {
    weights_[{param, device}] = weights_.at({held, device});
    return;
  }
  Buffer buffer{.device = device,
                .purpose = what.trained ? Purpose::kWeight : Purpose::kState,
                .bytes = type(what.value).bytes(0, program_.norm_rows),
                .persistent = true,
                .value = what.value,
                .param = param,
                .replica = replica,
                .name = what.name};
  weights_[{param, device}] = add_buffer(buffer);
  const auto& gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  if (!program_.training || std::find(gradients.begin(), gradients.end(), param) == gradients.end()) {
    return;
  }
  const bool compressed = is_compressed(param);
  if (compressed && !owners_.owns(param, replica)) {
    return;
  }
  const auto states = compressed ? std::vector<std::string>(std::begin(kResidualStates), std::end(kResidualStates))
                                 : optimizer_states(request_.module);
  buffer.purpose = compressed ? Purpose::kResidual : Purpose::kOptimizer;
  for (size_t state = 0; state < states.size(); ++state) {
    buffer.state = static_cast<int32_t>(state);
    buffer.name = what.name + "." + states[state];
    optimizer_[{param, device}].push_back(add_buffer(buffer));
  }
}

// Adds the buffers that have the rows of a whole replica, and not of a micro-batch: gradients, batch statistics,
// results.
void Emitter::add_row_buffers() {
  const int64_t rows = program_.batch / program_.replicas;
  for (const Stage& stage : program_.stages) {
    const StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
    for (int replica = 0; replica < program_.replicas; ++replica) {
      const int device = device_of(stage.index, replica);
      for (const ParamId param : flow.gradients) {
        const ValueId grad = graph_.param_grads[static_cast<size_t>(param.index)];
        const BufferId id = add_buffer({.device = device,
                                        .purpose = Purpose::kGradient,
                                        .bytes = gradient_bytes(program_, type(grad)),
                                        .value = grad,
                                        .param = param,
                                        .replica = replica,
                                        .name = graph_.param(param).name + ".gradient"});
        gradients_[{param, device}] = id;
        set_place(grad, device, -1, id);
      }
      for (const auto* values : {&flow.statistics, &flow.results}) {
        for (const ValueId value : *values) {
          set_place(value, device, -1,
                    add_buffer({.device = device,
                                .purpose = values == &flow.results ? Purpose::kResult : Purpose::kActivation,
                                .bytes = type(value).bytes(rows, program_.norm_rows),
                                .value = value,
                                .replica = replica,
                                .name = name_of_value(value)}));
        }
      }
    }
  }
}

BufferId Emitter::add_activation(ValueId value, int device, int replica, int micro_batch) {
  const BufferId id = add_buffer({.device = device,
                                  .purpose = Purpose::kActivation,
                                  .bytes = type(value).bytes(program_.micro_batch_rows(), program_.norm_rows),
                                  .value = value,
                                  .micro_batch = micro_batch,
                                  .replica = replica,
                                  .name = name_of_value(value)});
  set_place(value, device, micro_batch, id);
  return id;
}

BufferId Emitter::add_scratch(int device, Bytes slice, const std::string& name) {
  return add_buffer({.device = device,
                     .purpose = Purpose::kScratch,
                     .bytes = align_up(slice) * program_.threads[static_cast<size_t>(device)],
                     .name = name});
}

void Emitter::emit_pass(int stage_index, int replica, int index, bool backward) {
  const Stage& one = stage(stage_index);
  const StageFlow& flow = flow_.stages[static_cast<size_t>(stage_index)];
  Segment all{.nodes = backward ? one.recomputed : one.forward,
              .kept = backward ? flow.sent_gradients : flow.kept,
              .layout = (backward ? backward_layouts_ : forward_layouts_)[static_cast<size_t>(stage_index)],
              .time = backward ? one.backward_time : one.forward_time};
  if (backward) {
    all.nodes.insert(all.nodes.end(), one.backward.begin(), one.backward.end());
  }
  if (!all.nodes.empty()) {
    emit_pass(stage_index, replica, index, backward, all);
  }
}

void Emitter::emit_pass(int stage_index, int replica, int index, bool backward, const Segment& segment) {
  const BlockLayout& layout = segment.layout;
  const int micro_batch = global_micro_batch(replica, index);
  Instruction pass{.kind = backward ? Kind::kBackward : Kind::kForward,
                   .device = device_of(stage_index, replica),
                   .stage = stage_index,
                   .replica = replica,
                   .micro_batch = micro_batch,
                   .nodes = segment.nodes,
                   .predicted = segment.time};
  if (on_gpus()) {
    emit_input_copies(pass);
  }
  for (const ValueId value : segment.kept) {
    if (!place(value, pass.device, micro_batch).valid()) {
      add_activation(value, pass.device, replica, micro_batch);
    }
  }
  BufferId scratch;
  if (layout.bytes > 0) {
    scratch = add_scratch(pass.device, layout.bytes, backward ? "backward.scratch" : "forward.scratch");
  }
  add_node_operands(pass, layout, scratch);
  if (scratch.valid()) {
    pass.operands.push_back(scratch_operand(scratch, layout.kernel_offset, layout.bytes - layout.kernel_offset));
  }
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  for (const NodeId id : pass.nodes) {
    const Node& node = graph_.node(id);
    inputs.clear();
    outputs.clear();
    for (const ValueId value : node.inputs) {
      inputs.push_back(type(value));
    }
    for (const ValueId value : node.outputs) {
      outputs.push_back(type(value));
    }
    if (node.op->cost != nullptr) {
      pass.flops += node.op->cost(inputs, outputs, node.attrs).flops * static_cast<double>(program_.micro_batch_rows());
    }
  }
  pass.span = graph_.node(pass.nodes.front()).span;
  add(std::move(pass));
}

// Emits the transfers of the values that a pass has made for stages on other devices. The receive is emitted directly
// after the send, so that sender and receiver process their transfers in the same order. A device whose stages read the
// value receives it once.
void Emitter::emit_crossings(int stage_index, int replica, int index, bool backward) {
  const int micro_batch = global_micro_batch(replica, index);
  for (const Crossing& crossing : flow_.crossings) {
    if (crossing.from != stage_index || crossing.backward != backward) {
      continue;
    }
    const BufferId from = place(crossing.value, device_of(stage_index, replica), micro_batch);
    const int receiver = device_of(crossing.to, replica);
    if (place(crossing.value, receiver, micro_batch).valid()) {
      continue;
    }
    const BufferId to = add_activation(crossing.value, receiver, replica, micro_batch);
    Instruction send{.kind = Kind::kSend,
                     .device = device_of(stage_index, replica),
                     .stream = comm_stream(),
                     .stage = stage_index,
                     .replica = replica,
                     .micro_batch = micro_batch,
                     .group = groups_,
                     .bytes = type(crossing.value).bytes(program_.micro_batch_rows(), program_.norm_rows)};
    Instruction recv = send;
    recv.kind = Kind::kRecv;
    recv.device = receiver;
    recv.stage = crossing.to;
    send.operands = {micro_batch_operand(Role::kSent, Access::kRead, from, crossing.value, micro_batch)};
    send.operands[0].index = receiver;
    recv.operands = {micro_batch_operand(Role::kReceived, Access::kWrite, to, crossing.value, micro_batch)};
    recv.operands[0].index = send.device;
    add(std::move(send));
    add(std::move(recv));
    ++groups_;
  }
}

// Emits an exchange in which each replica of a stage sends the batch statistics of its row blocks to all replicas,
// since each of them folds the statistics of all row blocks of the batch into its running statistics. It follows the
// last forward pass of the stage, so it overlaps with the backward passes.
void Emitter::emit_statistics_gather(int stage_index) {
  const auto& statistics = flow_.stages[static_cast<size_t>(stage_index)].statistics;
  if (program_.replicas == 1 || statistics.empty()) {
    return;
  }
  const std::vector<Operand> sent = blocks_to_replicas(stage_index);
  for (int replica = 0; replica < program_.replicas; ++replica) {
    const int device = device_of(stage_index, replica);
    Instruction gather{.kind = Kind::kAllGather,
                       .device = device,
                       .stream = comm_stream(),
                       .stage = stage_index,
                       .replica = replica,
                       .group = groups_};
    for (const ValueId value : statistics) {
      const Bytes bytes = type(value).bytes(program_.batch, program_.norm_rows);
      const Bytes part = bytes / program_.replicas;
      const BufferId all = add_buffer({.device = device,
                                       .purpose = Purpose::kGathered,
                                       .bytes = bytes,
                                       .value = value,
                                       .replica = -1,
                                       .name = name_of_value(value) + ".gathered"});
      gathered_[{0, value.index, device, -1}] = all;
      gather.bytes += bytes;
      int first = 0;  // the replica with the first device of a run
      for (Operand run : sent) {
        run.buffer = place(value, device, -1);
        run.bytes = part;
        gather.operands.push_back(run);
        // The blocks of the replicas are contiguous in the buffer of all blocks.
        run.role = Role::kReceived;
        run.access = Access::kWrite;
        run.buffer = all;
        run.offset = part * first;
        run.step = run.count > 1 ? part : 0;
        first += run.count;
        gather.operands.push_back(run);
      }
    }
    add(std::move(gather));
  }
  ++groups_;
}

}  // namespace xrun::planner
