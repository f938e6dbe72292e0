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
    const HeadPlan& head = program_.heads[h];
    const auto states = updates(h) ? optimizer_states(request_.module) : std::vector<std::string>{};
    for (const HeadShard& shard : head.shards) {
      if (shard.row_end <= shard.row_begin) {
        continue;
      }
      ShardBuffers& buffers = shards_[{h, shard.shard}];
      for (const ParamId param : {head.weight, head.bias}) {
        if (!param.valid()) {
          continue;
        }
        const Parameter& what = graph_.param(param);
        Buffer buffer{.device = shard.device,
                      .purpose = Purpose::kHeadWeight,
                      .bytes = shard_bytes(head, shard, param, Purpose::kHeadWeight),
                      .persistent = true,
                      .value = what.value,
                      .param = param,
                      .replica = -1,
                      .head = static_cast<int32_t>(h),
                      .shard = shard.shard,
                      .name = what.name};
        buffers.weights.push_back(add_buffer(buffer));
        buffer.purpose = Purpose::kHeadOptimizer;
        buffer.bytes = shard_bytes(head, shard, param, Purpose::kHeadOptimizer);
        for (size_t state = 0; state < states.size(); ++state) {
          buffer.state = static_cast<int32_t>(state);
          buffer.name = what.name + "." + states[state];
          buffers.states.push_back(add_buffer(buffer));
        }
      }
      if (has_scales(head)) {
        buffers.scales = add_buffer({.device = shard.device,
                                     .purpose = Purpose::kHeadScale,
                                     .bytes = shard_bytes(head, shard, head.weight, Purpose::kHeadScale),
                                     .persistent = true,
                                     .param = head.weight,
                                     .replica = -1,
                                     .head = static_cast<int32_t>(h),
                                     .shard = shard.shard,
                                     .name = graph_.param(head.weight).name + ".scale"});
      }
      if (catches_up(head) && updates(h)) {
        buffers.last = add_buffer({.device = shard.device,
                                   .purpose = Purpose::kHeadLast,
                                   .bytes = shard_bytes(head, shard, head.weight, Purpose::kHeadLast),
                                   .persistent = true,
                                   .param = head.weight,
                                   .replica = -1,
                                   .head = static_cast<int32_t>(h),
                                   .shard = shard.shard,
                                   .name = graph_.param(head.weight).name + ".last"});
      }
      const HeadShape shape = head_shape(program_, graph_, head, shard, head.rows);
      if (head.active > 0) {
        const auto add_one = [&](Purpose purpose, Bytes bytes, const char* name) {
          return add_buffer({.device = shard.device,
                             .purpose = purpose,
                             .bytes = bytes,
                             .persistent = true,
                             .param = head.weight,
                             .replica = -1,
                             .head = static_cast<int32_t>(h),
                             .shard = shard.shard,
                             .name = graph_.param(head.weight).name + name});
        };
        buffers.selection = add_one(Purpose::kHeadSelection, head_selection(shape).total, ".selection");
        buffers.mass = add_one(Purpose::kHeadMass, head.rows * kHeadMassRow, ".mass");
      }
      const Bytes prepared = head_prepared_bytes(shape);
      if (prepared > 0) {
        buffers.prepared = add_buffer({.device = shard.device,
                                       .purpose = Purpose::kHeadPrepared,
                                       .bytes = prepared,
                                       .persistent = true,
                                       .param = head.weight,
                                       .replica = -1,
                                       .head = static_cast<int32_t>(h),
                                       .shard = shard.shard,
                                       .name = graph_.param(head.weight).name + ".prepared"});
      }
    }
    if (head.neighbours > 0) {
      add_graph_buffers(h);
    }
    const auto add_result = [&](ValueId value, Bytes bytes) {
      results_[{h, value.index}] = add_buffer({.device = shard_devices(h).front(),
                                               .purpose = Purpose::kResult,
                                               .bytes = bytes,
                                               .value = value,
                                               .replica = -1,
                                               .head = static_cast<int32_t>(h),
                                               .name = name_of_value(value)});
    };
    if (head.loss.valid()) {
      add_result(graph_.node(head.loss).outputs[0], program_.batch * 4);
    }
    for (const NodeId metric : head.metrics) {
      for (const ValueId output : graph_.node(metric).outputs) {
        add_result(output, type(output).bytes(program_.batch, program_.norm_rows));
      }
    }
    if (!program_.training) {
      add_result(head.logits, best_bytes(head, program_.batch));
    }
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
  lists_[head] = add_one(Purpose::kHeadLists, lists_bytes(plan), ".lists");
  add_one(Purpose::kHeadSnapshot, plan.classes * plan.dim * 4, ".snapshot");
  add_one(Purpose::kHeadBuild, build_bytes(program_, plan), ".build");
}

// Returns the buffer with the rows of a pass on a shard's device. The first call adds the buffer.
BufferId Emitter::pass_buffer(size_t head, ValueId value, int device, int pass) {
  const HeadPlan& plan = program_.heads[head];
  if (const auto input = inputs_.find(value); input != inputs_.end() && (pass < 0 || !apart(head))) {
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
