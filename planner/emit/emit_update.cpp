// The end of a step: partials, replicas, batch statistics and norms are brought together, then everything is updated.
#include <algorithm>
#include <set>

#include "planner/buffer_sizes.h"
#include "planner/emit/emitter.h"

namespace xrun::planner {

void Emitter::emit_update() {
  emit_fold_and_reduce();
  emit_statistics_gather();
  if (request_.module.train.clip.kind == ClipSpec::kNorm) {
    emit_norms();
  }
  for (const Stage& one : program_.stages) {
    const StageFlow& flow = flow_.stages[static_cast<size_t>(one.index)];
    for (int replica = 0; replica < program_.replicas; ++replica) {
      const int device = device_of(one.index, replica);
      Instruction update{.kind = Kind::kUpdate, .device = device, .stage = one.index, .replica = replica};
      std::set<ParamId> changed(flow.gradients.begin(), flow.gradients.end());
      for (const ParamId param : flow.gradients) {
        update.reads.push_back(gradients_.at({param, device}));
        update.writes.push_back(weights_.at({param, device}));
        const auto& states = optimizer_[{param, device}];
        update.writes.insert(update.writes.end(), states.begin(), states.end());
      }
      for (const ValueId value : flow.statistics) {
        update.reads.push_back(gathered_.contains({0, value.index, device, -1}) && program_.replicas > 1
                                   ? gathered_.at({0, value.index, device, -1})
                                   : place(value, device, -1));
        // The states of the operator that made them.
        for (const ValueId input : graph_.node(graph_.value(value).producer).inputs) {
          const ParamId param = graph_.value(input).param;
          if (param.valid() && !graph_.param(param).trained && changed.insert(param).second) {
            update.writes.push_back(weights_.at({param, device}));
          }
        }
      }
      Bytes scratch = 0;
      for (const auto& [key, buffer] : prepared_) {
        const auto& [node, input, where] = key;
        if (where == device && changed.contains(program_.buffer(buffer).param)) {
          update.writes.push_back(buffer);
          scratch = std::max(scratch, request_.facts.nodes[static_cast<size_t>(node)].scratch);
        }
      }
      if (update.writes.empty()) {
        continue;
      }
      for (const BufferId id : update.writes) {
        update.bytes += program_.buffer(id).bytes;
      }
      if (const auto norms = norms_.find(device); norms != norms_.end()) {
        update.reads.push_back(norms->second);
      }
      if (scratch > 0) {
        update.writes.push_back(add_scratch(device, scratch, "update.scratch"));
      }
      add(std::move(update));
    }
  }
  emit_head_updates();
}

void Emitter::emit_fold_and_reduce() {
  for (const Stage& one : program_.stages) {
    const StageFlow& flow = flow_.stages[static_cast<size_t>(one.index)];
    if (flow.gradients.empty()) {
      continue;
    }
    const auto all_gradients = [&](int device) {
      std::vector<BufferId> buffers;
      for (const ParamId param : flow.gradients) {
        buffers.push_back(gradients_.at({param, device}));
      }
      return buffers;
    };
    if (program_.partials > program_.replicas) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        const int device = device_of(one.index, replica);
        add({.kind = Kind::kRun,
             .pass = Pass::kFoldPartials,
             .device = device,
             .stage = one.index,
             .replica = replica,
             .reads = all_gradients(device),
             .writes = all_gradients(device)});
      }
    }
    if (program_.replicas == 1) {
      continue;
    }
    for (int replica = 0; replica < program_.replicas; ++replica) {
      const int device = device_of(one.index, replica);
      Instruction reduce{.kind = Kind::kAllReduce,
                         .device = device,
                         .stream = comm_stream(),
                         .stage = one.index,
                         .replica = replica,
                         .group = groups_,
                         .reads = all_gradients(device),
                         .writes = all_gradients(device)};
      for (const BufferId id : reduce.reads) {
        reduce.bytes += program_.buffer(id).bytes / (program_.partials / program_.replicas);
      }
      add(std::move(reduce));
    }
    ++groups_;
  }
}

// Running statistics are folded from all row blocks of the batch on every replica alike.
void Emitter::emit_statistics_gather() {
  if (program_.replicas == 1) {
    return;
  }
  for (const Stage& one : program_.stages) {
    for (const ValueId value : flow_.stages[static_cast<size_t>(one.index)].statistics) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        const int device = device_of(one.index, replica);
        const Bytes bytes = type(value).bytes(program_.batch, program_.block_rows);
        const BufferId all = add_buffer({.device = device,
                                         .purpose = Purpose::kGathered,
                                         .bytes = bytes,
                                         .value = value,
                                         .replica = -1,
                                         .name = name_of_value(value) + ".gathered"});
        gathered_[{0, value.index, device, -1}] = all;
        add({.kind = Kind::kAllGather,
             .device = device,
             .stream = comm_stream(),
             .stage = one.index,
             .replica = replica,
             .group = groups_,
             .reads = {place(value, device, -1)},
             .writes = {all},
             .bytes = bytes});
      }
      ++groups_;
    }
  }
}

void Emitter::add_norm_buffers() {
  const bool with_heads = request_.module.train.clip.heads;
  std::set<int> devices;
  for (const Stage& one : program_.stages) {
    devices.insert(one.devices.begin(), one.devices.end());
  }
  for (size_t h = 0; h < program_.heads.size() && with_heads; ++h) {
    if (updates(h)) {
      const auto holders = shard_devices(h);
      devices.insert(holders.begin(), holders.end());
    }
  }
  const Bytes bytes = norm_bytes(request_.module);
  for (const int device : devices) {
    norms_[device] =
        add_buffer({.device = device, .purpose = Purpose::kNorms, .bytes = bytes, .replica = -1, .name = "norms"});
  }
}

void Emitter::emit_norms() {
  add_norm_buffers();
  for (const Stage& one : program_.stages) {
    for (int replica = 0; replica < program_.replicas; ++replica) {
      const int device = device_of(one.index, replica);
      Instruction norm{.kind = Kind::kRun,
                       .pass = Pass::kNorm,
                       .device = device,
                       .stage = one.index,
                       .replica = replica,
                       .writes = {norms_.at(device)}};
      for (const ParamId param : flow_.stages[static_cast<size_t>(one.index)].gradients) {
        norm.reads.push_back(gradients_.at({param, device}));
      }
      add(std::move(norm));
    }
  }
  for (size_t h = 0; h < program_.heads.size() && request_.module.train.clip.heads; ++h) {
    for (const HeadShard& shard : program_.heads[h].shards) {
      if (!updates(h) || shard.row_end <= shard.row_begin) {
        continue;
      }
      Instruction run = head_instruction(h, Pass::kHeadNorms, shard, -1);
      read_operands(h, -1, run);
      run.reads.push_back(softmax_buffer(h, shard.device, -1));
      touch_weights(h, shard, run, false);
      run.writes.push_back(norms_.at(shard.device));
      if (const BufferId scratch = head_scratch_buffer(h, shard, HeadPass::kUpdate, program_.batch); scratch.valid()) {
        run.writes.push_back(scratch);
      }
      add(std::move(run));
    }
  }
  if (norms_.size() < 2) {
    return;
  }
  for (const auto& [device, buffer] : norms_) {
    add({.kind = Kind::kAllGather,
         .device = device,
         .stream = comm_stream(),
         .replica = -1,
         .group = groups_,
         .reads = {buffer},
         .writes = {buffer},
         .bytes = program_.buffer(buffer).bytes});
  }
  ++groups_;
}

}  // namespace xrun::planner
