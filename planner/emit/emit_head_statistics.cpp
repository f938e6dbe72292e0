// Emits the first half of a head pass: the statistics of each shard, their exchange, and their combination into the
// softmax, loss and metrics.
// Tests: tests/planner/emit/emit_test.cpp
#include "planner/emit/emitter.h"

namespace xrun::planner {

void Emitter::emit_statistics(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const auto devices = shard_devices(head);
  for (const int device : devices) {
    statistics_[{head, device, pass}] =
        add_buffer({.device = device,
                    .purpose = Purpose::kHeadStats,
                    .bytes = all_stats_bytes(shard_parts_[head]),
                    .replica = -1,
                    .head = static_cast<int32_t>(head),
                    .head_pass = pass,
                    .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".statistics"});
  }
  emit_head_forward(head, pass);
  if (devices.size() > 1) {
    emit_statistics_exchange(head, pass);
  }
  // If no gradient is computed, only the device with the results needs the combined statistics.
  for (const int device : devices) {
    if (trains(head) || device == devices.front()) {
      emit_reduce_statistics(head, pass, device);
    }
  }
}

void Emitter::emit_head_forward(size_t head, int pass) {
  for (const HeadShard& shard : program_.heads[head].shards) {
    if (shard.row_end <= shard.row_begin) {
      continue;
    }
    Instruction run = head_instruction(head, Kind::kHeadForward, shard, pass);
    add_features_and_labels(head, run);
    add_selection(head, shard, run);
    run.operands.push_back(statistics_operand(Role::kStats, Access::kWrite, head, pass, shard.device, shard));
    add_logits(head, shard, Access::kWrite, run);
    add_weights(head, shard, run, false);
    add_head_scratch(head, shard, HeadPass::kForward, run);
    add(std::move(run));
  }
}

// Emits the all-gather that gives every device of the head the statistics of all shards.
void Emitter::emit_statistics_exchange(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const auto devices = shard_devices(head);
  for (const int device : devices) {
    Instruction gather{.kind = Kind::kAllGather,
                       .device = device,
                       .stream = comm_stream(),
                       .replica = -1,
                       .head = static_cast<int>(head),
                       .head_pass = pass,
                       .group = groups_,
                       .bytes = all_stats_bytes(shard_parts_[head]),
                       .span = graph_.node(plan.node).span};
    for (const HeadShard& shard : plan.shards) {
      if (shard.row_begin >= shard.row_end) {
        continue;
      }
      const bool mine = shard.device == device;
      Operand part = statistics_operand(mine ? Role::kSent : Role::kReceived, mine ? Access::kRead : Access::kWrite,
                                        head, pass, device, shard);
      part.index = shard.device;
      if (!mine) {
        gather.operands.push_back(part);
        continue;
      }
      for (const int other : devices) {
        part.index = other;
        if (other != device) {
          gather.operands.push_back(part);
        }
      }
    }
    add(std::move(gather));
  }
  ++groups_;
}

// Emits the combination of the statistics of all shards on a device of the head.
void Emitter::emit_reduce_statistics(size_t head, int pass, int device) {
  const HeadPlan& plan = program_.heads[head];
  const bool has_results = device == shard_devices(head).front();
  Instruction run{.kind = Kind::kReduceStats,
                  .device = device,
                  .replica = -1,
                  .head = static_cast<int>(head),
                  .head_pass = pass,
                  .span = graph_.node(plan.node).span};
  if (plan.label.valid()) {
    add_rows(head, Role::kLabel, pass_buffer(head, plan.label, device, pass), run);
  }
  if (plan.row_factor.valid() && has_results) {
    add_rows(head, Role::kRowFactor, pass_buffer(head, plan.row_factor, device, pass), run);
  }
  if (trains(head)) {
    add_selection(head, *first_shard(head, device), run);
  }
  add_softmax(head, Access::kWrite, run);
  for (const HeadShard& shard : plan.shards) {
    if (shard.row_begin < shard.row_end) {
      run.operands.push_back(statistics_operand(Role::kStats, Access::kRead, head, pass, device, shard));
    }
  }
  add_head_scratch(head, -1, stats_scratch_bytes(program_, graph_, plan), run);
  if (has_results) {
    add_results(head, run);
  }
  add(std::move(run));
}

// Returns the place of a shard's statistics in the buffer of a device.
Operand Emitter::statistics_operand(Role role, Access access, size_t head, int pass, int device,
                                    const HeadShard& shard) const {
  const ShardPart& part = shard_parts_[head][static_cast<size_t>(shard.shard)];
  return {.role = role,
          .access = access,
          .buffer = statistics_.at({head, device, pass}),
          .index = shard.shard,
          .offset = part.stats_offset,
          .bytes = part.stats};
}

}  // namespace xrun::planner
