// Emits the end of a step, in this order: sum the gradient partials of each replica; compress gradients, or sum them
// over replicas; sum the gradients of tied weights; compute and gather the sums of squares of gradients, if the step
// needs them; update the weights. If the loss has a scale, gradients are compressed once all sums are finite.
// Tests: tests/planner/emit/emit_test.cpp
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

void Emitter::emit_update() {
  emit_folds();
  norm_layout_ = norm_layout(request_.module, program_.senders());
  if (request_.module.train.sums_squares() && norm_layout_.total > 0) {
    emit_norms();
  }
  if (compresses_late()) {
    for (const Stage& one : program_.stages) {
      emit_compression(one.index);
    }
  }
  for (const Stage& one : program_.stages) {
    for (int replica = 0; replica < program_.replicas; ++replica) {
      emit_stage_update(one, replica);
    }
  }
  emit_head_updates();
}

// Emits the update of a stage's weights and running statistics on a replica. A stage without them has no update.
void Emitter::emit_stage_update(const Stage& stage, int replica) {
  const StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
  const int device = device_of(stage.index, replica);
  Instruction update{.kind = Kind::kUpdate, .device = device, .stage = stage.index, .replica = replica};
  for (const ParamId param : flow.gradients) {
    if (holder(param, stage.index) == param) {  // otherwise the gradient of this reader was added to the holder's
      add_weight_update(param, device, update);
    }
  }
  for (const NodeId node : stage.forward) {
    if (graph_.node(node).op->folds_states) {
      add_fold(node, device, update);
    }
  }
  const std::set<ParamId> changed(flow.gradients.begin(), flow.gradients.end());
  Bytes scratch = 0;
  for (auto at = prepared_.lower_bound({device, 0, 0}); at != prepared_.end() && std::get<0>(at->first) == device;
       ++at) {
    const auto& [where, node, input] = at->first;
    const BufferId buffer = at->second;
    const ParamId param = program_.buffer(buffer).param;
    if (changed.contains(param)) {
      update.operands.push_back(whole(Role::kPrepared, Access::kWrite, buffer));
      update.operands.back().node = NodeId(node);
      update.operands.back().index = input;
      update.operands.back().param = param;
      const KernelFact& fact = request_.facts.nodes[static_cast<size_t>(node)];
      scratch = std::max(scratch, fact.prepares_in_scratch ? fact.scratch : 0);
    }
  }
  if (update.operands.empty()) {
    return;
  }
  derive_accesses(update);
  for (const BufferId id : update.writes) {
    update.bytes += program_.buffer(id).bytes;
  }
  if (const auto norms = norms_.find(device); norms != norms_.end()) {
    update.operands.push_back(whole(Role::kNorms, Access::kRead, norms->second));
  }
  if (scratch > 0) {
    update.operands.push_back(scratch_operand(add_scratch(device, scratch, "update.scratch"), 0, align_up(scratch)));
  }
  add(std::move(update));
}

// Adds the operands with which an update changes a weight. For a compressed gradient, the update adds up the (index,
// value) pairs of all senders and uses partial 0 of the gradient as working memory, so it writes this partial.
void Emitter::add_weight_update(ParamId param, int device, Instruction& update) {
  const bool compressed = is_compressed(param);
  update.operands.push_back(
      gradient_operand(Role::kGradient, compressed ? Access::kWrite : Access::kRead, param, device));
  update.operands.push_back(whole(Role::kWeight, Access::kUpdate, weights_.at({param, device})));
  update.operands.back().param = param;
  if (compressed) {
    update.operands.push_back(whole(Role::kPairs, Access::kRead, pairs_.at({param, device})));
    update.operands.back().param = param;
    return;
  }
  for (const BufferId state : optimizer_[{param, device}]) {
    update.operands.push_back(whole(Role::kState, Access::kUpdate, state));
    update.operands.back().param = param;
    update.operands.back().index = program_.buffer(state).state;
  }
}

// Returns the operand for partial 0 of a gradient. With Role::kGradient, it steps through all partials of the replica.
Operand Emitter::gradient_operand(Role role, Access access, ParamId param, int device) const {
  const BufferId id = gradients_.at({param, device});
  const Buffer& buffer = program_.buffer(id);
  Operand operand{.role = role,
                  .access = access,
                  .buffer = id,
                  .param = param,
                  .bytes = type(buffer.value).bytes(0, program_.norm_rows)};
  if (role == Role::kGradient) {
    operand.by = By::kPartial;
    operand.step = buffer.bytes / program_.partials_of_replica();
  }
  return operand;
}

// Adds the operands for the running states of an operator, and for the statistics that are folded into them.
void Emitter::add_fold(NodeId id, int device, Instruction& update) const {
  const Node& node = graph_.node(id);
  const auto add_operand = [&](Role role, Access access, BufferId buffer, size_t index, Bytes bytes) {
    update.operands.push_back({.role = role,
                               .access = access,
                               .buffer = buffer,
                               .node = id,
                               .index = static_cast<int32_t>(index),
                               .bytes = bytes});
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ParamId param = graph_.value(node.inputs[i]).param;
    if (param.valid() && !graph_.param(param).trained) {
      const BufferId buffer = weights_.at({param, device});
      add_operand(Role::kRunningState, Access::kUpdate, buffer, i, program_.buffer(buffer).bytes);
      update.operands.back().param = param;
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    if (type(value).per_block()) {
      const auto gathered = gathered_.find({0, value.index, device, -1});
      const bool all = program_.replicas > 1 && gathered != gathered_.end();
      add_operand(Role::kStatistics, Access::kRead, all ? gathered->second : place(value, device, -1), i,
                  type(value).bytes(program_.batch, program_.norm_rows));
    }
  }
}

// Emits the sums over the partials of some gradients of a stage, one instruction for each replica.
void Emitter::emit_folds(int stage_index, const std::vector<ParamId>& gradients) {
  for (int replica = 0; program_.partials > program_.replicas && replica < program_.replicas; ++replica) {
    Instruction fold{.kind = Kind::kFoldPartials,
                     .device = device_of(stage_index, replica),
                     .stage = stage_index,
                     .replica = replica};
    for (const ParamId param : gradients) {
      fold.operands.push_back(gradient_operand(Role::kGradient, Access::kUpdate, param, fold.device));
    }
    add(std::move(fold));
  }
}

void Emitter::emit_folds() {
  for (const Stage& one : program_.stages) {
    const StageFlow& flow = flow_.stages[static_cast<size_t>(one.index)];
    if (flow.gradients.empty()) {
      continue;
    }
    if (one.index != cut_stage_) {
      emit_folds(one.index, flow.gradients);
    }
    emit_sender_sums(one.index);
    if (!compresses_late()) {
      emit_compression(one.index);
    }
    if (program_.replicas > 1) {
      emit_replica_sums(one.index);
    }
  }
  emit_tied_sums();
}

// Returns the operand for the sums of squares of `param`; for a head's parameter, of its class blocks `part`.
Operand Emitter::norms_operand(ParamId param, BlockRange part, int device, Access access) const {
  const bool of_head = graph_.param(param).head;
  constexpr auto kSum = static_cast<Bytes>(sizeof(double));
  return {.role = Role::kNorms,
          .access = access,
          .buffer = norms_.at(device),
          .param = param,
          .offset = norm_layout_.offset(param) + (of_head ? part.begin * kSum : 0),
          .bytes = of_head ? part.size() * kSum : norm_layout_.bytes(param)};
}

void Emitter::add_norm_buffers() {
  const bool with_heads = request_.module.train.heads_wait_for_sums();
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
  const Bytes bytes = norm_layout_.bytes();
  for (const int device : devices) {
    norms_[device] =
        add_buffer({.device = device, .purpose = Purpose::kNorms, .bytes = bytes, .replica = -1, .name = "norms"});
  }
}

void Emitter::emit_norms() {
  add_norm_buffers();
  NormOperands made;
  for (const Stage& one : program_.stages) {
    for (int replica = 0; replica < program_.replicas; ++replica) {
      const int device = device_of(one.index, replica);
      Instruction norm{.kind = Kind::kNorm, .device = device, .stage = one.index, .replica = replica};
      for (const ParamId param : flow_.stages[static_cast<size_t>(one.index)].gradients) {
        const bool compressed = is_compressed(param);
        if (!norm_layout_.has(param) || (compressed && !owners_.owns(param, replica))) {
          continue;
        }
        norm.operands.push_back(gradient_operand(Role::kGradient, Access::kRead, param, device));
        norm.operands.push_back(norms_operand(param, {}, device, Access::kWrite));
        if (compressed) {
          norm.operands.back().offset = norm_layout_.offset(param, owners_.sender_of(replica));
        }
        if (replica == 0 || compressed) {  // without compression replicas have equal values
          made[device].push_back(norm.operands.back());
        }
      }
      if (!norm.operands.empty()) {
        add(std::move(norm));
      }
    }
  }
  if (request_.module.train.clip.heads) {
    emit_head_norms(made);
  }
  if (norms_.size() > 1) {
    emit_norms_gather(made);
  }
}

void Emitter::emit_head_norms(NormOperands& made) {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& plan = program_.heads[h];
    for (const HeadShard& shard : plan.shards) {
      if (!updates(h) || shard.row_end <= shard.row_begin) {
        continue;
      }
      Instruction run = head_instruction(h, Kind::kHeadNorms, shard, -1);
      add_features_and_labels(h, run);
      add_selection(h, shard, run);
      add_softmax(h, Access::kRead, run);
      add_weights(h, shard, run, false);
      for (const ParamId param : {plan.weight, plan.bias}) {
        if (param.valid()) {
          run.operands.push_back(norms_operand(param, plan.blocks().of_rows({shard.row_begin, shard.row_end}),
                                               shard.device, Access::kWrite));
          made[shard.device].push_back(run.operands.back());
        }
      }
      add_head_scratch(h, shard, HeadPass::kUpdate, run);
      add(std::move(run));
    }
  }
}

// Emits the all-gather that gives every device the sums of squares of all devices. The blocks are in the order of their
// offsets, so that the blocks of one weight, from all of its senders, are contiguous.
void Emitter::emit_norms_gather(NormOperands made) {
  std::vector<std::pair<int, Operand>> all;  // with the device that made the sums
  for (auto& [device, sums] : made) {
    std::ranges::sort(sums, {}, &Operand::offset);
    for (const Operand& sum : sums) {
      all.emplace_back(device, sum);
    }
  }
  std::ranges::sort(all, {}, [](const auto& one) { return one.second.offset; });
  std::vector<Operand> received;
  for (const auto& [from, sum] : all) {
    append_block(
        received,
        {.role = Role::kReceived, .access = Access::kWrite, .index = from, .offset = sum.offset, .bytes = sum.bytes});
  }
  std::vector<Operand> sent;  // an empty block for each device
  for (const auto& [to, unused] : norms_) {
    append_block(sent, {.role = Role::kSent, .index = to});
  }
  for (const auto& [device, buffer] : norms_) {
    Instruction gather{.kind = Kind::kAllGather,
                       .device = device,
                       .stream = comm_stream(),
                       .replica = -1,
                       .group = groups_,
                       .bytes = norm_layout_.bytes()};
    for (Operand run : received) {
      run.buffer = buffer;
      append_others(gather.operands, run, device);
    }
    const auto own = made.find(device);
    for (const Operand& sum : own == made.end() ? std::vector<Operand>() : own->second) {
      for (Operand run : sent) {
        run.buffer = buffer;
        run.offset = sum.offset;
        run.bytes = sum.bytes;
        append_others(gather.operands, run, device);
      }
    }
    add(std::move(gather));
  }
  ++groups_;
}

}  // namespace xrun::planner
