// Emits the passes of sharded heads (docs/internals/algorithms.md, "Head pass"). For each pass: gather features and
// labels on the devices of the shards; compute the statistics of each shard and combine them into the softmax, loss and
// metrics (emit_head_statistics.cpp); compute the gradients of each shard and sum dX (emit_dx.cpp). The class rows are
// updated together with the gradients, or in a sweep at the end of the step. With active classes, each shard first
// selects them once a step.
// Tests: tests/planner/emit/emit_test.cpp
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// Emits the gathers of the values of a stage that heads read, as soon as all replicas have made these values.
void Emitter::emit_gathers(int stage_index, int index) {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    for (const ValueId value : {program_.heads[h].feature, program_.heads[h].label}) {
      if (value.valid() && flow_.maker[static_cast<size_t>(value.index)] == stage_index) {
        emit_gather(h, value, index);
      }
    }
  }
}

void Emitter::emit_gather(size_t head, ValueId value, int index) {
  const int maker = flow_.maker[static_cast<size_t>(value.index)];
  const auto holders = shard_devices(head);
  std::set<int> devices(holders.begin(), holders.end());
  devices.insert(stage(maker).devices.begin(), stage(maker).devices.end());
  for (const int device : devices) {
    Instruction gather{.kind = Kind::kAllGather,
                       .device = device,
                       .stream = comm_stream(),
                       .stage = maker,
                       .replica = -1,
                       .head = static_cast<int>(head),
                       .head_pass = pass_of(index),
                       .gather = index,
                       .group = groups_,
                       .bytes = type(value).bytes(program_.micro_batch_rows(), program_.norm_rows) * program_.replicas,
                       .span = graph_.node(program_.heads[head].node).span};
    for (int replica = 0; replica < program_.replicas; ++replica) {
      if (device_of(maker, replica) != device) {
        continue;
      }
      gather.replica = replica;
      const int micro_batch = global_micro_batch(replica, index);
      for (const int holder : holders) {
        gather.operands.push_back(
            micro_batch_operand(Role::kSent, Access::kRead, place(value, device, micro_batch), value, micro_batch));
        gather.operands.back().index = holder;
      }
    }
    if (std::find(holders.begin(), holders.end(), device) != holders.end()) {
      const BufferId all = pass_buffer(head, value, device, pass_of(index));
      for (int replica = 0; replica < program_.replicas; ++replica) {
        const int64_t row = head_row(head, program_.buffer(all), global_micro_batch(replica, index));
        gather.operands.push_back({.role = Role::kReceived,
                                   .access = Access::kWrite,
                                   .buffer = all,
                                   .index = device_of(maker, replica),
                                   .offset = type(value).bytes(row, program_.norm_rows),
                                   .bytes = type(value).bytes(program_.micro_batch_rows(), program_.norm_rows)});
      }
    }
    add(std::move(gather));
  }
  ++groups_;
}

Seconds Emitter::share(size_t head, const HeadShard& shard, Seconds slowest) const {
  return slowest * static_cast<double>(shard.row_end - shard.row_begin) / static_cast<double>(most_rows_[head]);
}

Instruction Emitter::head_instruction(size_t head, Kind kind, const HeadShard& shard, int pass) const {
  const HeadPlan& plan = program_.heads[head];
  const double rows = static_cast<double>(is_head_sweep(kind) ? program_.batch : plan.rows);
  const double active = plan.active > 0 ? static_cast<double>(plan.active) / static_cast<double>(plan.classes) : 1;
  const double macs =
      active * rows * static_cast<double>(shard.row_end - shard.row_begin) * static_cast<double>(plan.dim);
  Instruction instruction{.kind = kind,
                          .device = shard.device,
                          .replica = -1,
                          .head = static_cast<int>(head),
                          .head_pass = pass,
                          .shard = shard.shard,
                          .span = graph_.node(plan.node).span};
  // The matrix products of each pass: the forward pass computes logits. The backward pass computes the logits that were
  // not kept, dX and, if it updates the rows, dW. A sweep at the end of the step computes logits and dW.
  switch (kind) {
    case Kind::kHeadForward:
      instruction.flops = 2 * macs;
      instruction.predicted = share(head, shard, decision_.head_forward_time);
      break;
    case Kind::kHeadBackward:
      instruction.flops = (plan.update_sweep || plan.frozen ? 4 : 6) * macs -
                          2 * active * rows * static_cast<double>(plan.kept_classes(shard) * plan.dim);
      instruction.predicted = share(head, shard, decision_.head_backward_time);
      break;
    default:
      instruction.flops = 4 * macs;
      instruction.predicted = share(head, shard, decision_.head_update_time);
      break;
  }
  return instruction;
}

// Returns the first shard with rows on a device; null if there is none.
const HeadShard* Emitter::first_shard(size_t head, int device) const {
  const auto& shards = program_.heads[head].shards;
  const auto at = std::ranges::find_if(
      shards, [&](const HeadShard& one) { return one.device == device && one.row_begin < one.row_end; });
  return at == shards.end() ? nullptr : &*at;
}

// Emits the selection of the active classes of the step on every shard. It reads the labels of all rows, whose classes
// are always active.
void Emitter::emit_selections() {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& plan = program_.heads[h];
    for (const HeadShard& shard : plan.shards) {
      if (plan.active == 0 || shard.row_end <= shard.row_begin) {
        continue;
      }
      Instruction run{.kind = Kind::kHeadSelect,
                      .device = shard.device,
                      .replica = -1,
                      .head = static_cast<int>(h),
                      .shard = shard.shard,
                      .span = graph_.node(plan.node).span};
      add_rows(h, Role::kLabel, inputs_.at(plan.label), run);
      if (plan.neighbours > 0) {
        run.operands.push_back(whole(Role::kLists, Access::kRead, lists_.at(h)));
      }
      run.operands.push_back(whole(Role::kSelection, Access::kUpdate, shards_.at({h, shard.shard}).selection));
      add(std::move(run));
    }
  }
}

// Emits the measurement of the active classes' share of the softmax, for the rows of the first pass. It runs only in
// steps that request it.
void Emitter::emit_masses() {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& plan = program_.heads[h];
    for (const HeadShard& shard : plan.shards) {
      if (plan.active == 0 || shard.row_end <= shard.row_begin) {
        continue;
      }
      Instruction run{.kind = Kind::kHeadMass,
                      .device = shard.device,
                      .replica = -1,
                      .head = static_cast<int>(h),
                      .head_pass = 0,
                      .shard = shard.shard,
                      .span = graph_.node(plan.node).span};
      add_features_and_labels(h, run);
      add_selection(h, shard, run);
      run.operands.push_back(whole(Role::kMass, Access::kWrite, shards_.at({h, shard.shard}).mass));
      add_weights(h, shard, run, false);
      add_head_scratch(h, shard.shard, head_mass_scratch_bytes(head_shape(program_, graph_, plan, shard, plan.rows)),
                       run);
      add(std::move(run));
    }
  }
}

void Emitter::emit_head_pass(int pass) {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& head = program_.heads[h];
    if (program_.training && !head.loss.valid() && head.metrics.empty()) {
      continue;
    }
    emit_head_pass(h, pass);
  }
}

void Emitter::emit_head_pass(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  // Batch inputs of a pass, such as labels, are copied to GPUs, and if their rows are not contiguous in the batch.
  for (const int device : shard_devices(head)) {
    Instruction copy{
        .kind = Kind::kCopy, .device = device, .replica = -1, .head = static_cast<int>(head), .head_pass = pass};
    for (const ValueId value : {plan.feature, plan.label, plan.row_factor}) {
      const auto input = value.valid() ? inputs_.find(value) : inputs_.end();
      if ((apart(head) || on_gpus()) && input != inputs_.end()) {
        add_copy(head, input->second, pass_buffer(head, value, device, pass), copy);
      }
    }
    if (!copy.operands.empty()) {
      add(std::move(copy));
    }
  }
  emit_statistics(head, pass);
  if (apart(head)) {
    emit_pass_copies(head, pass);
  }
  if (trains(head)) {
    emit_head_gradients(head, pass);
  }
}

// Emits copies from buffers with the rows of a pass to buffers with all rows of the batch: copies of results, and of
// the values that the sweep at the end of the step reads.
void Emitter::emit_pass_copies(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  for (const int device : shard_devices(head)) {
    Instruction copy{
        .kind = Kind::kCopy, .device = device, .replica = -1, .head = static_cast<int>(head), .head_pass = pass};
    if (device == shard_devices(head).front()) {
      for (const Buffer& buffer : program_.buffers) {
        if (buffer.purpose == Purpose::kResult && buffer.head == static_cast<int32_t>(head) &&
            buffer.head_pass == pass) {
          add_copy(head, buffer.id, results_.at({head, buffer.value.index}), copy);
        }
      }
    }
    if (plan.update_sweep) {
      for (const ValueId value : {plan.feature, plan.label, plan.row_factor}) {
        if (value.valid() && (on_gpus() || !inputs_.contains(value))) {
          add_copy(head, pass_buffer(head, value, device, pass), pass_buffer(head, value, device, -1), copy);
        }
      }
      add_copy(head, softmax_buffer(head, device, pass), softmax_buffer(head, device, -1), copy);
    }
    if (!copy.operands.empty()) {
      add(std::move(copy));
    }
  }
}

void Emitter::emit_head_gradients(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const auto holders = shard_devices(head);
  const std::vector<ShardPart>& parts = shard_parts_[head];
  const auto part_of = [&](Access access, const HeadShard& shard) -> Operand {
    const ShardPart& part = parts[static_cast<size_t>(shard.shard)];
    return {.role = Role::kDx,
            .access = access,
            .buffer = partials_.at({head, shard.device, pass}),
            .index = shard.shard,
            .offset = part.gradient_offset,
            .bytes = part.gradient};
  };
  for (const int device : holders) {
    partials_[{head, device, pass}] = add_buffer({.device = device,
                                                  .purpose = Purpose::kHeadGradient,
                                                  .bytes = device_gradient_bytes(plan, parts, device),
                                                  .replica = -1,
                                                  .head = static_cast<int32_t>(head),
                                                  .head_pass = pass,
                                                  .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".dx"});
  }
  for (const HeadShard& shard : plan.shards) {
    if (shard.row_end <= shard.row_begin) {
      continue;
    }
    Instruction run = head_instruction(head, Kind::kHeadBackward, shard, pass);
    add_features_and_labels(head, run);
    add_selection(head, shard, run);
    add_softmax(head, Access::kRead, run);
    run.operands.push_back(part_of(Access::kWrite, shard));
    add_logits(head, shard, Access::kRead, run);
    add_weights(head, shard, run, updates(head) && !plan.update_sweep);
    add_head_scratch(head, shard, HeadPass::kBackward, run);
    add(std::move(run));
  }
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  if (!plan.feature_grad.valid() || maker < 0) {
    return;
  }
  const bool one_pass = plan.rows == program_.batch;
  for (int index = one_pass ? 0 : pass; index < (one_pass ? per_replica() : pass + 1); ++index) {
    emit_dx(head, pass, index);
  }
}

// Emits a sweep over all rows of the batch for each shard of the heads whose passes do not update the class rows.
void Emitter::emit_head_updates() {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& plan = program_.heads[h];
    if (!plan.update_sweep) {
      continue;
    }
    for (const HeadShard& shard : plan.shards) {
      if (shard.row_end <= shard.row_begin) {
        continue;
      }
      Instruction run = head_instruction(h, Kind::kHeadUpdate, shard, -1);
      add_features_and_labels(h, run);
      add_selection(h, shard, run);
      add_softmax(h, Access::kRead, run);
      add_weights(h, shard, run, true);
      if (const auto norms = norms_.find(shard.device);
          norms != norms_.end() && request_.module.train.heads_wait_for_sums()) {
        run.operands.push_back(whole(Role::kNorms, Access::kRead, norms->second));
      }
      add_head_scratch(h, shard, HeadPass::kUpdate, run);
      add(std::move(run));
    }
  }
}

}  // namespace xrun::planner
