// The gradient of a head's feature: dX partials of all shards go to the devices that made the features, and are summed
// there, for one micro-batch of every replica. Nodes with several shards may sum theirs first (planner/dx_parts.h).
#include <algorithm>
#include <set>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// A sum of dX partials for a replica's micro-batch: where its features were made, or before that on a node.
struct Emitter::DxSum {
  size_t head = 0;
  int pass = 0;
  int index = 0;  // of the micro-batch inside the replica
  int replica = 0;
  int device = 0;   // that sums
  int shard = -1;   // on a node: the first of its shards
  DxPart together;  // on a node: what it sums
  std::vector<DxPart> parts;
};

void Emitter::emit_dx(size_t head, int pass, int index) {
  const HeadPlan& plan = program_.heads[head];
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  std::vector<DxSum> sums;                     // by replica
  std::map<int, std::vector<DxSum>> of_nodes;  // by their first shard
  for (int replica = 0; replica < program_.replicas; ++replica) {
    DxSum sum{.head = head,
              .pass = pass,
              .index = index,
              .replica = replica,
              .device = device_of(maker, replica),
              .parts = dx_parts(program_, plan, maker, replica, index)};
    for (const DxPart& part : sum.parts) {
      if (part.is_summed()) {
        const int first = part.shards.front();
        of_nodes[first].push_back({.head = head,
                                   .pass = pass,
                                   .index = index,
                                   .replica = replica,
                                   .device = part.device,
                                   .shard = first,
                                   .together = part,
                                   .parts = shards_of(plan, part)});
      }
    }
    sums.push_back(std::move(sum));
  }
  for (const auto& [shard, of_node] : of_nodes) {
    emit_dx_terms(of_node);
    for (const DxSum& sum : of_node) {
      emit_node_sum(sum);
    }
  }
  emit_dx_terms(sums);
  for (const DxSum& sum : sums) {
    emit_reduce_dx(sum);
  }
}

// Sends all parts to the devices that sum them, if they are not there already. The sums are of one micro-batch and the
// same shards, for several replicas.
void Emitter::emit_dx_terms(const std::vector<DxSum>& sums) {
  std::set<int> members;
  for (const DxSum& sum : sums) {
    for (const DxPart& part : sum.parts) {
      if (part.device != sum.device) {
        members.insert({part.device, sum.device});
      }
    }
  }
  if (members.empty()) {
    return;
  }
  const DxSum& first = sums.front();
  const ValueId gradient = program_.heads[first.head].feature_grad;
  for (const int device : members) {
    Instruction exchange = dx_instruction(Kind::kReduceScatter, first);
    exchange.device = device;
    exchange.stream = comm_stream();
    exchange.replica = -1;
    exchange.group = groups_;
    exchange.bytes =
        type(gradient).bytes(program_.micro_batch_rows(), program_.norm_rows) * static_cast<Bytes>(sums.size());
    for (const DxSum& sum : sums) {
      if (sum.device != device) {
        add_dx_sent(sum, exchange);
      } else {
        exchange.replica = sum.shard < 0 ? sum.replica : -1;
        add_dx_received(sum, exchange);
      }
    }
    add(std::move(exchange));
  }
  ++groups_;
}

Instruction Emitter::dx_instruction(Kind kind, const DxSum& sum) const {
  const HeadPlan& plan = program_.heads[sum.head];
  return {.kind = kind,
          .device = sum.device,
          .stage = flow_.maker[static_cast<size_t>(plan.feature.index)],
          .replica = sum.replica,
          .head = static_cast<int>(sum.head),
          .head_pass = sum.pass,
          .gather = sum.index,
          .shard = sum.shard,
          .span = graph_.node(plan.node).span};
}

HeadGradientRows Emitter::dx_rows_of(const DxSum& sum, const DxPart& part) const {
  return dx_rows(program_, graph_, program_.heads[sum.head], part, sum.replica, sum.index);
}

// The rows of a part on the device that sends it, in its first partial.
Operand Emitter::dx_operand(const DxSum& sum, const DxPart& part) const {
  const HeadGradientRows rows = dx_rows_of(sum, part);
  const int shard = part.shards.front();
  Operand operand{.role = Role::kDx, .access = Access::kRead, .index = shard, .bytes = rows.bytes};
  if (part.is_summed()) {
    operand.buffer = node_sums_.at({sum.head, global_micro_batch(sum.replica, sum.index), shard});
    operand.step = rows.bytes;
  } else {
    operand.buffer = partials_.at({sum.head, part.device, sum.pass});
    operand.offset = shard_parts_[sum.head][static_cast<size_t>(shard)].gradient_offset + rows.begin;
    operand.step = rows.step;
  }
  return operand;
}

void Emitter::add_dx_sent(const DxSum& sum, Instruction& exchange) const {
  for (const DxPart& part : sum.parts) {
    if (part.device != exchange.device) {
      continue;
    }
    const Operand rows = dx_operand(sum, part);
    for (int64_t partial = 0; partial < dx_rows_of(sum, part).subtrees; ++partial) {
      exchange.operands.push_back({.role = Role::kSent,
                                   .access = Access::kRead,
                                   .buffer = rows.buffer,
                                   .index = sum.device,
                                   .offset = rows.offset + rows.step * partial,
                                   .bytes = rows.bytes});
    }
  }
}

void Emitter::add_dx_received(const DxSum& sum, Instruction& exchange) {
  const int micro_batch = global_micro_batch(sum.replica, sum.index);
  Buffer terms{.device = exchange.device,
               .purpose = Purpose::kTerms,
               .micro_batch = micro_batch,
               .replica = sum.shard < 0 ? sum.replica : -1,
               .head = static_cast<int32_t>(sum.head),
               .head_pass = sum.pass,
               .shard = sum.shard,
               .name = graph_.heads[static_cast<size_t>(program_.heads[sum.head].head)].name + ".dx.terms"};
  std::vector<Operand> received;
  for (const DxPart& part : sum.parts) {
    if (part.device == exchange.device) {
      continue;
    }
    const HeadGradientRows rows = dx_rows_of(sum, part);
    for (int64_t partial = 0; partial < rows.subtrees; ++partial) {
      received.push_back({.role = Role::kReceived,
                          .access = Access::kWrite,
                          .index = part.device,
                          .offset = terms.bytes,
                          .bytes = rows.bytes});
      terms.bytes += rows.bytes;
    }
  }
  if (received.empty()) {
    return;
  }
  const BufferId id = add_buffer(std::move(terms));
  terms_[{sum.head, micro_batch, sum.shard}] = id;
  for (Operand& operand : received) {
    operand.buffer = id;
    exchange.operands.push_back(operand);
  }
}

// All parts, in the order of their classes: those of the own device where they are, others where they were received.
void Emitter::add_dx_reads(const DxSum& sum, Instruction& instruction) const {
  Bytes received = 0;
  for (const DxPart& part : sum.parts) {
    if (part.device == sum.device) {
      instruction.operands.push_back(dx_operand(sum, part));
      continue;
    }
    const HeadGradientRows rows = dx_rows_of(sum, part);
    instruction.operands.push_back(
        {.role = Role::kDx,
         .access = Access::kRead,
         .buffer = terms_.at({sum.head, global_micro_batch(sum.replica, sum.index), sum.shard}),
         .index = part.shards.front(),
         .offset = received,
         .bytes = rows.bytes,
         .step = rows.bytes});
    received += rows.bytes * rows.subtrees;
  }
}

void Emitter::emit_node_sum(const DxSum& sum) {
  const int micro_batch = global_micro_batch(sum.replica, sum.index);
  const HeadGradientRows rows = dx_rows_of(sum, sum.together);
  Instruction add_up = dx_instruction(Kind::kSumDx, sum);
  add_dx_reads(sum, add_up);
  const BufferId out =
      add_buffer({.device = sum.device,
                  .purpose = Purpose::kHeadSums,
                  .bytes = rows.bytes * rows.subtrees,
                  .micro_batch = micro_batch,
                  .replica = -1,
                  .head = static_cast<int32_t>(sum.head),
                  .head_pass = sum.pass,
                  .shard = sum.shard,
                  .name = graph_.heads[static_cast<size_t>(program_.heads[sum.head].head)].name + ".dx.sums"});
  node_sums_[{sum.head, micro_batch, sum.shard}] = out;
  add_up.operands.push_back({.role = Role::kDx,
                             .access = Access::kWrite,
                             .buffer = out,
                             .index = sum.shard,
                             .bytes = rows.bytes,
                             .step = rows.bytes});
  add(std::move(add_up));
}

void Emitter::emit_reduce_dx(const DxSum& sum) {
  const HeadPlan& plan = program_.heads[sum.head];
  const int micro_batch = global_micro_batch(sum.replica, sum.index);
  Instruction reduce = dx_instruction(Kind::kReduceDx, sum);
  reduce.operands.push_back(micro_batch_operand(
      Role::kFeature, Access::kRead, place(plan.feature, sum.device, micro_batch), plan.feature, micro_batch));
  add_dx_reads(sum, reduce);
  const BufferId out = add_activation(plan.feature_grad, sum.device, sum.replica, micro_batch);
  reduce.operands.push_back(
      micro_batch_operand(Role::kFeatureGradient, Access::kWrite, out, plan.feature_grad, micro_batch));
  add(std::move(reduce));
}

}  // namespace xrun::planner
