// The head pass of a sharded head (docs/architecture.md, contract 7): gathers, statistics, gradients, updates.
#include <algorithm>
#include <set>

#include "planner/buffer_sizes.h"
#include "planner/emit/emitter.h"

namespace xrun::planner {

// What the heads read of a stage, as soon as all replicas have made it.
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
  std::set<int> devices;
  for (const int device : shard_devices(head)) {
    devices.insert(device);
  }
  for (const int device : stage(maker).devices) {
    devices.insert(device);
  }
  const auto holders = shard_devices(head);
  for (const int device : devices) {
    Instruction gather{
        .kind = Kind::kAllGather,
        .device = device,
        .stream = comm_stream(),
        .stage = maker,
        .replica = -1,
        .micro_batch = index,
        .head = static_cast<int>(head),
        .group = groups_,
        .bytes = type(value).bytes(program_.micro_batch_rows(), program_.block_rows) * program_.replicas};
    for (int replica = 0; replica < program_.replicas; ++replica) {
      if (device_of(maker, replica) == device) {
        gather.replica = replica;
        gather.reads.push_back(place(value, device, global_micro_batch(replica, index)));
      }
    }
    if (std::find(holders.begin(), holders.end(), device) != holders.end()) {
      gather.writes.push_back(pass_buffer(head, value, device, pass_of(index)));
    }
    gather.span = graph_.node(program_.heads[head].node).span;
    add(std::move(gather));
  }
  ++groups_;
}

Seconds Emitter::share(size_t head, const HeadShard& shard, Seconds slowest) const {
  std::map<int, int64_t> rows;
  int64_t most = 1;
  for (const HeadShard& one : program_.heads[head].shards) {
    rows[one.device] += one.row_end - one.row_begin;
    most = std::max(most, rows[one.device]);
  }
  return slowest * static_cast<double>(shard.row_end - shard.row_begin) / static_cast<double>(most);
}

Instruction Emitter::head_instruction(size_t head, Pass pass, const HeadShard& shard, int index) const {
  const HeadPlan& plan = program_.heads[head];
  const double rows =
      static_cast<double>(pass == Pass::kHeadUpdate || pass == Pass::kHeadNorms ? program_.batch : plan.rows);
  const double macs = rows * static_cast<double>(shard.row_end - shard.row_begin) * static_cast<double>(plan.dim);
  Instruction instruction{.kind = Kind::kRun,
                          .pass = pass,
                          .device = shard.device,
                          .replica = -1,
                          .micro_batch = index,
                          .head = static_cast<int>(head),
                          .shard = shard.shard,
                          .span = graph_.node(plan.node).span};
  // Statistics: logits. Backward: logits again, dX, and dW where it updates. A sweep: logits and dW.
  switch (pass) {
    case Pass::kHeadForward:
      instruction.flops = 2 * macs;
      instruction.predicted = share(head, shard, decision_.head_forward_time);
      break;
    case Pass::kHeadBackward:
      instruction.flops = (plan.update_sweep || plan.frozen ? 4 : 6) * macs;
      instruction.predicted = share(head, shard, decision_.head_backward_time);
      break;
    default:
      instruction.flops = 4 * macs;
      instruction.predicted = share(head, shard, decision_.head_update_time);
      break;
  }
  return instruction;
}

void Emitter::read_operands(size_t head, int pass, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  instruction.reads.push_back(pass_buffer(head, plan.feature, instruction.device, pass));
  if (plan.label.valid()) {
    instruction.reads.push_back(pass_buffer(head, plan.label, instruction.device, pass));
  }
}

void Emitter::touch_weights(size_t head, const HeadShard& shard, Instruction& instruction, bool update) {
  const ShardBuffers& buffers = shards_.at({head, shard.shard});
  auto& list = update ? instruction.writes : instruction.reads;
  list.insert(list.end(), buffers.weights.begin(), buffers.weights.end());
  if (buffers.prepared.valid()) {
    list.push_back(buffers.prepared);
  }
  if (update) {
    list.insert(list.end(), buffers.states.begin(), buffers.states.end());
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
  // Rows that data feeds but that lie apart in the batch.
  for (const int device : shard_devices(head)) {
    Instruction copy{
        .kind = Kind::kCopy, .device = device, .replica = -1, .micro_batch = pass, .head = static_cast<int>(head)};
    for (const ValueId value : {plan.feature, plan.label}) {
      const auto input = value.valid() ? inputs_.find(value) : inputs_.end();
      if (apart(head) && input != inputs_.end()) {
        copy.reads.push_back(input->second);
        copy.writes.push_back(pass_buffer(head, value, device, pass));
        copy.bytes += type(value).bytes(plan.rows, program_.block_rows);
      }
    }
    if (!copy.reads.empty()) {
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

void Emitter::emit_statistics(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const auto devices = shard_devices(head);
  const Bytes bytes = all_stats_bytes(program_, graph_, plan);
  for (const int device : devices) {
    statistics_[{head, device, pass}] =
        add_buffer({.device = device,
                    .purpose = Purpose::kHeadStats,
                    .bytes = bytes,
                    .micro_batch = pass,
                    .replica = -1,
                    .head = static_cast<int32_t>(head),
                    .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".statistics"});
  }
  for (const HeadShard& shard : plan.shards) {
    if (shard.row_end <= shard.row_begin) {
      continue;
    }
    Instruction run = head_instruction(head, Pass::kHeadForward, shard, pass);
    read_operands(head, pass, run);
    touch_weights(head, shard, run, false);
    run.writes.push_back(statistics_.at({head, shard.device, pass}));
    if (const BufferId scratch = head_scratch_buffer(head, shard, HeadPass::kForward, plan.rows); scratch.valid()) {
      run.writes.push_back(scratch);
    }
    add(std::move(run));
  }
  if (devices.size() > 1) {
    for (const int device : devices) {
      const BufferId buffer = statistics_.at({head, device, pass});
      add({.kind = Kind::kAllGather,
           .device = device,
           .stream = comm_stream(),
           .replica = -1,
           .micro_batch = pass,
           .head = static_cast<int>(head),
           .group = groups_,
           .reads = {buffer},
           .writes = {buffer},
           .bytes = bytes,
           .span = graph_.node(plan.node).span});
    }
    ++groups_;
  }
  // Without a gradient only the device that has the results needs them joined.
  for (const int device : devices) {
    if (!trains(head) && device != devices.front()) {
      continue;
    }
    Instruction run{.kind = Kind::kRun,
                    .pass = Pass::kReduceStats,
                    .device = device,
                    .replica = -1,
                    .micro_batch = pass,
                    .head = static_cast<int>(head),
                    .reads = {statistics_.at({head, device, pass})},
                    .writes = {softmax_buffer(head, device, pass)},
                    .span = graph_.node(plan.node).span};
    if (plan.label.valid()) {
      run.reads.push_back(pass_buffer(head, plan.label, device, pass));
    }
    for (const auto& [key, result] : results_) {
      if (key.first != head || device != devices.front()) {
        continue;
      }
      if (!apart(head)) {
        run.writes.push_back(result);
        continue;
      }
      Buffer part = program_.buffer(result);
      part.bytes = part.bytes / program_.batch * plan.rows;
      part.micro_batch = pass;
      run.writes.push_back(add_buffer(std::move(part)));
    }
    add(std::move(run));
  }
}

// From the rows of a pass to the whole batch: results, and what the sweep at the end of the step reads.
void Emitter::emit_pass_copies(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  for (const int device : shard_devices(head)) {
    Instruction copy{
        .kind = Kind::kCopy, .device = device, .replica = -1, .micro_batch = pass, .head = static_cast<int>(head)};
    const auto keep = [&](BufferId from, BufferId to) {
      copy.reads.push_back(from);
      copy.writes.push_back(to);
      copy.bytes += program_.buffer(from).bytes;
    };
    if (device == shard_devices(head).front()) {
      for (const Buffer& buffer : std::vector<Buffer>(program_.buffers)) {
        if (buffer.purpose == Purpose::kResult && buffer.head == static_cast<int32_t>(head) &&
            buffer.micro_batch == pass) {
          keep(buffer.id, results_.at({head, buffer.value.index}));
        }
      }
    }
    if (plan.update_sweep) {
      for (const ValueId value : {plan.feature, plan.label}) {
        if (value.valid() && !inputs_.contains(value)) {
          keep(pass_buffer(head, value, device, pass), pass_buffer(head, value, device, -1));
        }
      }
      keep(softmax_buffer(head, device, pass), softmax_buffer(head, device, -1));
    }
    if (!copy.reads.empty()) {
      add(std::move(copy));
    }
  }
}

void Emitter::emit_head_gradients(size_t head, int pass) {
  const HeadPlan& plan = program_.heads[head];
  const auto holders = shard_devices(head);
  const std::map<int, Bytes> bytes = device_gradient_bytes(program_, graph_, plan);
  for (const int device : holders) {
    partials_[{head, device, pass}] = add_buffer({.device = device,
                                                  .purpose = Purpose::kHeadGradient,
                                                  .bytes = bytes.at(device),
                                                  .micro_batch = pass,
                                                  .replica = -1,
                                                  .head = static_cast<int32_t>(head),
                                                  .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".dx"});
  }
  for (const HeadShard& shard : plan.shards) {
    if (shard.row_end <= shard.row_begin) {
      continue;
    }
    Instruction run = head_instruction(head, Pass::kHeadBackward, shard, pass);
    read_operands(head, pass, run);
    run.reads.push_back(softmax_buffer(head, shard.device, pass));
    touch_weights(head, shard, run, false);
    if (updates(head) && !plan.update_sweep) {
      touch_weights(head, shard, run, true);
    }
    run.writes.push_back(partials_.at({head, shard.device, pass}));
    if (const BufferId scratch = head_scratch_buffer(head, shard, HeadPass::kBackward, plan.rows); scratch.valid()) {
      run.writes.push_back(scratch);
    }
    add(std::move(run));
  }
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  if (!plan.feature_grad.valid() || maker < 0) {
    return;
  }
  const bool one_pass = plan.rows == program_.batch;
  for (int index = one_pass ? 0 : pass; index < (one_pass ? per_replica() : pass + 1); ++index) {
    std::set<int> devices(holders.begin(), holders.end());
    devices.insert(stage(maker).devices.begin(), stage(maker).devices.end());
    for (const int device : devices) {
      Instruction scatter{
          .kind = Kind::kReduceScatter,
          .device = device,
          .stream = comm_stream(),
          .stage = maker,
          .replica = -1,
          .micro_batch = index,
          .head = static_cast<int>(head),
          .group = groups_,
          .bytes = type(plan.feature_grad).bytes(program_.micro_batch_rows(), program_.block_rows) * program_.replicas,
          .span = graph_.node(plan.node).span};
      if (const auto partial = partials_.find({head, device, pass}); partial != partials_.end()) {
        scatter.reads.push_back(partial->second);
      }
      for (int replica = 0; replica < program_.replicas; ++replica) {
        if (device_of(maker, replica) == device) {
          const int micro_batch = global_micro_batch(replica, index);
          scatter.replica = replica;
          scatter.reads.push_back(place(plan.feature, device, micro_batch));
          scatter.writes.push_back(add_activation(plan.feature_grad, device, replica, micro_batch));
        }
      }
      add(std::move(scatter));
    }
    ++groups_;
  }
}

// One sweep over all rows of the batch for each shard, where the passes did not update.
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
      Instruction run = head_instruction(h, Pass::kHeadUpdate, shard, -1);
      read_operands(h, -1, run);
      run.reads.push_back(softmax_buffer(h, shard.device, -1));
      touch_weights(h, shard, run, true);
      if (const auto norms = norms_.find(shard.device); norms != norms_.end() && request_.module.train.clip.heads) {
        run.reads.push_back(norms->second);
      }
      if (const BufferId scratch = head_scratch_buffer(h, shard, HeadPass::kUpdate, program_.batch); scratch.valid()) {
        run.writes.push_back(scratch);
      }
      add(std::move(run));
    }
  }
}

}  // namespace xrun::planner
