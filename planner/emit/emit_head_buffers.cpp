// Buffers of sharded heads: weights and states of the shards, rows of the passes, results.
// Tests: tests/planner/emit/emit_test.cpp
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

std::vector<int> Emitter::shard_devices(size_t head) const {
  std::set<int> devices;
  for (const HeadShard& shard : program_.heads[head].shards) {
    if (shard.row_end > shard.row_begin) {
      devices.insert(shard.device);
    }
  }
  return {devices.begin(), devices.end()};
}

// Adds the buffers with weights, states and prepared rows of all shards, and with the results of all heads.
void Emitter::add_head_buffers() {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    for (const HeadShard& shard : program_.heads[h].shards) {
      if (shard.row_begin < shard.row_end) {
        add_shard_weights(h, shard);
        add_shard_buffers(h, shard);
      }
    }
    if (program_.heads[h].neighbours > 0) {
      add_graph_buffers(h);
    }
    add_result_buffers(h);
  }
}

// Adds the buffers with the weights of a shard and the states of the optimizer.
void Emitter::add_shard_weights(size_t head, const HeadShard& shard) {
  const HeadPlan& plan = program_.heads[head];
  const auto states = updates(head) ? optimizer_states(request_.module) : std::vector<std::string>{};
  ShardBuffers& buffers = shards_[{head, shard.shard}];
  for (const ParamId param : {plan.weight, plan.bias}) {
    if (!param.valid()) {
      continue;
    }
    const Parameter& what = graph_.param(param);
    Buffer buffer{.device = shard.device,
                  .purpose = Purpose::kHeadWeight,
                  .bytes = shard_bytes(plan, shard, param, Purpose::kHeadWeight),
                  .persistent = true,
                  .value = what.value,
                  .param = param,
                  .replica = -1,
                  .head = static_cast<int32_t>(head),
                  .shard = shard.shard,
                  .name = what.name};
    buffers.weights.push_back(add_buffer(buffer));
    buffer.purpose = Purpose::kHeadOptimizer;
    buffer.bytes = shard_bytes(plan, shard, param, Purpose::kHeadOptimizer);
    for (size_t state = 0; state < states.size(); ++state) {
      buffer.state = static_cast<int32_t>(state);
      buffer.name = what.name + "." + states[state];
      buffers.states.push_back(add_buffer(buffer));
    }
  }
}

// Adds the other buffers of a shard that are kept between steps.
void Emitter::add_shard_buffers(size_t head, const HeadShard& shard) {
  const HeadPlan& plan = program_.heads[head];
  ShardBuffers& buffers = shards_[{head, shard.shard}];
  const auto add_one = [&](Purpose purpose, Bytes bytes, const char* name) {
    return add_buffer({.device = shard.device,
                       .purpose = purpose,
                       .bytes = bytes,
                       .persistent = true,
                       .param = plan.weight,
                       .replica = -1,
                       .head = static_cast<int32_t>(head),
                       .shard = shard.shard,
                       .name = graph_.param(plan.weight).name + name});
  };
  if (has_scales(plan)) {
    const Bytes scales = shard_bytes(plan, shard, plan.weight, Purpose::kHeadScale);
    buffers.scales = add_one(Purpose::kHeadScale, scales, ".scale");
  }
  if (catches_up(plan) && updates(head)) {
    const Bytes last = shard_bytes(plan, shard, plan.weight, Purpose::kHeadLast);
    buffers.last = add_one(Purpose::kHeadLast, last, ".last");
  }
  const HeadShape shape = head_shape(program_, graph_, plan, shard, plan.rows);
  if (plan.active > 0) {
    buffers.selection = add_one(Purpose::kHeadSelection, head_selection(shape).total, ".selection");
    buffers.mass = add_one(Purpose::kHeadMass, plan.rows * kHeadMassRow, ".mass");
  }
  if (const Bytes prepared = head_prepared_bytes(shape); prepared > 0) {
    buffers.prepared = add_one(Purpose::kHeadPrepared, prepared, ".prepared");
  }
}

// Adds the buffers with the losses, metrics and best classes of a head, on the device of its first shard.
void Emitter::add_result_buffers(size_t head) {
  const HeadPlan& plan = program_.heads[head];
  const auto add_result = [&](ValueId value, Bytes bytes) {
    results_[{head, value.index}] = add_buffer({.device = shard_devices(head).front(),
                                                .purpose = Purpose::kResult,
                                                .bytes = bytes,
                                                .value = value,
                                                .replica = -1,
                                                .head = static_cast<int32_t>(head),
                                                .name = name_of_value(value)});
  };
  if (plan.loss.valid()) {
    add_result(graph_.node(plan.loss).outputs[0], program_.batch * 4);
  }
  for (const NodeId metric : plan.metrics) {
    for (const ValueId output : graph_.node(metric).outputs) {
      add_result(output, type(output).bytes(program_.batch, program_.norm_rows));
    }
  }
  if (!program_.training) {
    add_result(plan.logits, best_bytes(plan, program_.batch));
  }
}

// Adds the lists of nearest classes, of which the host has one copy, and the buffers for the next build of the lists.
void Emitter::add_graph_buffers(size_t head) {
  const HeadPlan& plan = program_.heads[head];
  const auto add_one = [&](Purpose purpose, Bytes bytes, const std::string& name) {
    return add_buffer({.device = kHost,
                       .purpose = purpose,
                       .bytes = bytes,
                       .persistent = true,
                       .param = plan.weight,
                       .replica = -1,
                       .head = static_cast<int32_t>(head),
                       .name = graph_.param(plan.weight).name + name});
  };
  const std::vector<Bytes> bytes = graph_bytes(program_, plan);
  lists_[head] = add_one(Purpose::kHeadLists, bytes[0], ".lists");
  add_one(Purpose::kHeadSnapshot, bytes[1], ".snapshot");
  add_one(Purpose::kHeadBuild, bytes[2], ".build");
}

// Returns the buffer with the rows of a pass on a shard's device. The first call adds the buffer. Heads on GPUs have
// copies of all inputs.
BufferId Emitter::pass_buffer(size_t head, ValueId value, int device, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const bool reads_host = !on_gpus() && (pass < 0 || !apart(head));
  if (const auto input = inputs_.find(value); input != inputs_.end() && reads_host) {
    return input->second;
  }
  const bool whole = pass < 0 || plan.rows == program_.batch || (plan.update_sweep && !apart(head));
  const int head_pass = whole ? -1 : pass;
  auto [found, fresh] = gathered_.try_emplace({head, value.index, device, head_pass});
  if (fresh) {
    found->second = add_buffer({.device = device,
                                .purpose = Purpose::kGathered,
                                .bytes = type(value).bytes(whole ? program_.batch : plan.rows, program_.norm_rows),
                                .value = value,
                                .replica = -1,
                                .head = static_cast<int32_t>(head),
                                .head_pass = head_pass,
                                .name = name_of_value(value) + ".gathered"});
  }
  return found->second;
}

BufferId Emitter::softmax_buffer(size_t head, int device, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const bool whole = pass < 0 || plan.rows == program_.batch || (plan.update_sweep && !apart(head));
  const int head_pass = whole ? -1 : pass;
  auto [found, fresh] = softmax_.try_emplace({head, device, head_pass});
  if (fresh) {
    found->second = add_buffer({.device = device,
                                .purpose = Purpose::kHeadSoftmax,
                                .bytes = softmax_bytes(program_, graph_, plan, whole ? program_.batch : plan.rows),
                                .replica = -1,
                                .head = static_cast<int32_t>(head),
                                .head_pass = head_pass,
                                .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".softmax"});
  }
  return found->second;
}

}  // namespace xrun::planner
