// Operands of head passes: rows of features and labels, softmax, class weights, results, and copies between the rows of
// a pass and those of the batch.
// Tests: tests/planner/emit/emit_test.cpp, tests/planner/verify/verify_module_test.cpp
#include "planner/emit/emitter.h"

namespace xrun::planner {

// Returns the first row of a pass in a buffer of a head: 0 if the buffer has only the rows of the pass, and 0 for a
// sweep over the batch (`pass` -1).
int64_t Emitter::pass_row(size_t head, const Buffer& buffer, int pass) const {
  return buffer.head_pass >= 0 || pass < 0 ? 0 : program_.heads[head].rows * pass;
}

// Returns the first row of a micro-batch in a buffer of a head. The rows of a pass are in the order of the replicas.
int64_t Emitter::head_row(size_t head, const Buffer& buffer, int micro_batch) const {
  const bool by_replica = buffer.head_pass >= 0 && program_.heads[head].rows < program_.batch;
  return program_.micro_batch_rows() * (by_replica ? micro_batch / per_replica() : micro_batch);
}

// Adds the operand for the rows of the instruction's pass, or of the batch, in a buffer with the rows of a value.
void Emitter::add_rows(size_t head, Role role, BufferId id, Instruction& instruction) const {
  const Buffer& buffer = program_.buffer(id);
  const int64_t rows = instruction.head_pass < 0 ? program_.batch : program_.heads[head].rows;
  instruction.operands.push_back(
      {.role = role,
       .access = Access::kRead,
       .buffer = id,
       .offset = type(buffer.value).bytes(pass_row(head, buffer, instruction.head_pass), program_.norm_rows),
       .bytes = type(buffer.value).bytes(rows, program_.norm_rows)});
}

void Emitter::add_features_and_labels(size_t head, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  add_rows(head, Role::kFeature, pass_buffer(head, plan.feature, instruction.device, instruction.head_pass),
           instruction);
  if (plan.label.valid()) {
    add_rows(head, Role::kLabel, pass_buffer(head, plan.label, instruction.device, instruction.head_pass), instruction);
  }
  if (plan.row_factor.valid() && instruction.kind != Kind::kHeadForward && instruction.kind != Kind::kHeadMass) {
    add_rows(head, Role::kRowFactor, pass_buffer(head, plan.row_factor, instruction.device, instruction.head_pass),
             instruction);
  }
}

// Adds the operand for the active classes of a shard, unless all classes are active.
void Emitter::add_selection(size_t head, const HeadShard& shard, Instruction& instruction) const {
  if (program_.heads[head].active > 0) {
    instruction.operands.push_back(whole(Role::kSelection, Access::kRead, shards_.at({head, shard.shard}).selection));
  }
}

void Emitter::add_softmax(size_t head, Access access, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  const int pass = instruction.head_pass;
  const BufferId id = softmax_buffer(head, instruction.device, pass);
  instruction.operands.push_back({.role = Role::kSoftmax,
                                  .access = access,
                                  .buffer = id,
                                  .offset = pass_row(head, program_.buffer(id), pass) * kHeadSoftmaxRow,
                                  .bytes = (pass < 0 ? program_.batch : plan.rows) * kHeadSoftmaxRow});
}

// Adds the operands for the class rows of a shard, and for their optimizer states if the rows are updated or catch up.
void Emitter::add_weights(size_t head, const HeadShard& shard, Instruction& instruction, bool update) const {
  const ShardBuffers& buffers = shards_.at({head, shard.shard});
  const Access access = update ? Access::kUpdate : Access::kRead;
  const auto add_operand = [&](Role role, BufferId id) {
    instruction.operands.push_back(whole(role, access, id));
    instruction.operands.back().param = program_.buffer(id).param;
    instruction.operands.back().index = program_.buffer(id).state;
  };
  for (const BufferId id : buffers.weights) {
    add_operand(Role::kWeight, id);
  }
  for (size_t i = 0; (update || buffers.last.valid()) && i < buffers.states.size(); ++i) {
    add_operand(Role::kState, buffers.states[i]);
  }
  if (buffers.last.valid()) {
    add_operand(Role::kLast, buffers.last);
  }
  if (buffers.scales.valid()) {
    add_operand(Role::kScales, buffers.scales);
  }
  if (buffers.prepared.valid()) {
    add_operand(Role::kPrepared, buffers.prepared);
  }
}

// Adds the operand for the logits that a shard keeps from its forward pass to its backward pass.
void Emitter::add_logits(size_t head, const HeadShard& shard, Access access, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  const Bytes bytes = head_logits_bytes(head_shape(program_, graph_, plan, shard, plan.rows));
  if (bytes == 0) {
    return;
  }
  auto [found, fresh] = logits_.try_emplace({head, shard.shard, instruction.head_pass});
  if (fresh) {
    found->second = add_buffer({.device = shard.device,
                                .purpose = Purpose::kHeadLogits,
                                .bytes = bytes,
                                .replica = -1,
                                .head = static_cast<int32_t>(head),
                                .head_pass = instruction.head_pass,
                                .shard = shard.shard,
                                .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".logits"});
  }
  instruction.operands.push_back(whole(Role::kLogits, access, found->second));
}

void Emitter::add_head_scratch(size_t head, const HeadShard& shard, HeadPass pass, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  const int64_t rows = instruction.head_pass < 0 ? program_.batch : plan.rows;
  add_head_scratch(head, shard.shard, head_scratch_bytes(head_shape(program_, graph_, plan, shard, rows), pass),
                   instruction);
}

// `shard`: -1 for a sum over several shards.
void Emitter::add_head_scratch(size_t head, int shard, Bytes bytes, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  if (bytes > 0) {
    instruction.operands.push_back(
        whole(Role::kScratch, Access::kWrite,
              add_buffer({.device = instruction.device,
                          .purpose = Purpose::kHeadScratch,
                          .bytes = bytes,
                          .replica = -1,
                          .head = static_cast<int32_t>(head),
                          .shard = shard,
                          .name = graph_.heads[static_cast<size_t>(plan.head)].name + ".scratch"})));
  }
}

// Adds the operands for loss, metrics and best classes, in the order of their values. If the rows of a pass are not
// contiguous in the batch, the pass writes into separate buffers, and a copy moves the rows to their places in the
// batch.
void Emitter::add_results(size_t head, Instruction& instruction) {
  const HeadPlan& plan = program_.heads[head];
  for (const auto& [key, result] : results_) {
    if (key.first != head) {
      continue;
    }
    BufferId id = result;
    if (apart(head)) {
      Buffer part = program_.buffer(result);
      part.bytes = part.bytes / program_.batch * plan.rows;
      part.head_pass = instruction.head_pass;
      id = add_buffer(std::move(part));
    }
    const Buffer buffer = program_.buffer(id);
    const Node& maker = graph_.node(graph_.value(buffer.value).producer);
    const int64_t first = pass_row(head, buffer, instruction.head_pass);
    const auto add_operand = [&](Role role, Bytes row, Bytes base) {
      instruction.operands.push_back({.role = role,
                                      .access = Access::kWrite,
                                      .buffer = id,
                                      .node = graph_.value(buffer.value).producer,
                                      .offset = base + first * row,
                                      .bytes = plan.rows * row});
    };
    if (buffer.value == plan.logits) {
      add_operand(Role::kBestClasses, plan.top_k * 4, 0);
      add_operand(Role::kBestScores, plan.top_k * 4, buffer.bytes / 2);
    } else if (maker.op->metric_k == nullptr) {
      add_operand(Role::kLoss, 4, 0);
    } else if (maker.inputs.size() > 1) {
      add_operand(Role::kHits, 4, 0);
    } else {
      const Bytes row = maker.op->metric_k(maker.attrs) * 4;
      add_operand(buffer.value == maker.outputs[0] ? Role::kBestClasses : Role::kBestScores, row, 0);
    }
  }
}

// Adds the operands of a copy of the rows of a pass: one pair if they are the rows of the batch, else a pair for every
// replica, and for each of the two tensors (classes and logits) if best classes of logits are copied.
void Emitter::add_copy(size_t head, BufferId from_id, BufferId to_id, Instruction& copy) const {
  const HeadPlan& plan = program_.heads[head];
  const Buffer& from = program_.buffer(from_id);
  const Buffer& to = program_.buffer(to_id);
  const bool best = from.value.valid() && from.value == plan.logits;
  const Bytes row = best                                    ? plan.top_k * 4
                    : from.purpose == Purpose::kHeadSoftmax ? kHeadSoftmaxRow
                                                            : type(from.value).bytes(1, program_.norm_rows);
  const bool all = plan.rows == program_.batch;
  for (int part = 0; part < (best ? 2 : 1); ++part) {
    for (int replica = 0; replica < (all ? 1 : program_.replicas); ++replica) {
      const int micro_batch = all ? 0 : global_micro_batch(replica, copy.head_pass);
      const auto add_operand = [&](Role role, Access access, const Buffer& buffer) {
        copy.operands.push_back({.role = role,
                                 .access = access,
                                 .buffer = buffer.id,
                                 .offset = head_row(head, buffer, micro_batch) * row + part * (buffer.bytes / 2),
                                 .bytes = (all ? program_.batch : program_.micro_batch_rows()) * row});
      };
      add_operand(Role::kFrom, Access::kRead, from);
      add_operand(Role::kTo, Access::kWrite, to);
      copy.bytes += copy.operands.back().bytes;
    }
  }
}

}  // namespace xrun::planner
