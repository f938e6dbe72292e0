// Emits the gradient of a head's features for one micro-batch of every replica: the dX partials of all shards are sent
// to the devices that made the features, and summed there. A node with several shards may sum their partials first
// (planner/program/dx_terms.h).
// Tests: tests/planner/program/dx_terms_test.cpp, tests/planner/emit/emit_test.cpp
#include "planner/emit/emitter.h"

namespace xrun::planner {

// Identifies a sum of dX: a micro-batch in a pass of a head, and where its partials are summed.
struct Emitter::DxPlace {
  size_t head = 0;
  int pass = 0;
  int index = 0;   // index of the micro-batch in each replica
  int shard = -1;  // for a sum on a node: the first of the summed shards
};

void Emitter::emit_dx(size_t head, int pass, int index) {
  const HeadPlan& plan = program_.heads[head];
  const int maker = flow_.maker[static_cast<size_t>(plan.feature.index)];
  const std::map<int, std::vector<DxSum>> sums = dx_sums(program_, plan, maker, index);
  for (const auto& [shard, on_nodes] : sums) {
    if (shard >= 0) {
      const DxPlace at{head, pass, index, shard};
      emit_dx_terms(at, on_nodes);
      for (const DxSum& sum : on_nodes) {
        emit_node_sum(at, sum);
      }
    }
  }
  const DxPlace at{head, pass, index};
  emit_dx_terms(at, sums.at(-1));
  for (const DxSum& sum : sums.at(-1)) {
    emit_reduce_dx(at, sum);
  }
}

// Emits the exchange that sends terms to the devices that sum them. Terms that are already on these devices are not
// sent.
void Emitter::emit_dx_terms(const DxPlace& at, const std::vector<DxSum>& sums) {
  std::vector<Instruction> exchanges;
  Bytes received = 0;
  for (const int device : members_of(sums)) {
    Instruction exchange = dx_instruction(Kind::kReduceScatter, at, device, -1);
    exchange.stream = comm_stream();
    exchange.group = groups_;
    for (const DxSum& sum : sums) {
      if (sum.device != device) {
        add_dx_sent(at, sum, exchange);
      } else {
        exchange.replica = at.shard < 0 ? sum.replica : -1;
        received += add_dx_received(at, sum, exchange);
      }
    }
    exchanges.push_back(std::move(exchange));
  }
  const Bytes gradients = type(program_.heads[at.head].feature_grad)
                              .bytes(program_.micro_batch_rows() * program_.replicas, program_.norm_rows);
  for (Instruction& exchange : exchanges) {
    exchange.bytes = at.shard < 0 ? gradients : received;
    add(std::move(exchange));
  }
  groups_ += exchanges.empty() ? 0 : 1;
}

Instruction Emitter::dx_instruction(Kind kind, const DxPlace& at, int device, int replica) const {
  const HeadPlan& plan = program_.heads[at.head];
  return {.kind = kind,
          .device = device,
          .stage = flow_.maker[static_cast<size_t>(plan.feature.index)],
          .replica = replica,
          .head = static_cast<int>(at.head),
          .head_pass = at.pass,
          .gather = at.index,
          .shard = at.shard,
          .span = graph_.node(plan.node).span};
}

HeadGradientRows Emitter::dx_rows_of(const DxPlace& at, const DxSum& sum, const DxTerm& term) const {
  return dx_rows(program_, graph_, program_.heads[at.head], term, sum.replica, at.index);
}

// Returns the operand for the rows of a term on the device that sends it; it is for the first partial of the term.
Operand Emitter::dx_operand(const DxPlace& at, const DxSum& sum, const DxTerm& term) const {
  const HeadGradientRows rows = dx_rows_of(at, sum, term);
  const int shard = term.shards.front();
  Operand operand{.role = Role::kDx, .access = Access::kRead, .index = shard, .bytes = rows.bytes};
  if (term.is_summed()) {
    operand.buffer = node_sums_.at({at.head, global_micro_batch(sum.replica, at.index), shard});
    operand.step = rows.bytes;
  } else {
    operand.buffer = partials_.at({at.head, term.device, at.pass});
    operand.offset = shard_parts_[at.head][static_cast<size_t>(shard)].gradient_offset + rows.begin;
    operand.step = rows.step;
  }
  return operand;
}

void Emitter::add_dx_sent(const DxPlace& at, const DxSum& sum, Instruction& exchange) const {
  for (const DxTerm& term : sum.terms) {
    if (term.device != exchange.device) {
      continue;
    }
    const Operand rows = dx_operand(at, sum, term);
    const int64_t partials = dx_rows_of(at, sum, term).subtrees;
    for (int64_t partial = 0; partial < partials; ++partial) {
      exchange.operands.push_back({.role = Role::kSent,
                                   .access = Access::kRead,
                                   .buffer = rows.buffer,
                                   .index = sum.device,
                                   .offset = rows.offset + rows.step * partial,
                                   .bytes = rows.bytes});
    }
  }
}

// Returns a buffer for the terms or the result of a sum, on the device that sums.
Buffer Emitter::dx_buffer(const DxPlace& at, const DxSum& sum, Purpose purpose, const char* name) const {
  return {.device = sum.device,
          .purpose = purpose,
          .micro_batch = global_micro_batch(sum.replica, at.index),
          .replica = at.shard < 0 ? sum.replica : -1,
          .head = static_cast<int32_t>(at.head),
          .head_pass = at.pass,
          .shard = at.shard,
          .name = graph_.heads[static_cast<size_t>(program_.heads[at.head].head)].name + name};
}

Bytes Emitter::add_dx_received(const DxPlace& at, const DxSum& sum, Instruction& exchange) {
  Buffer terms = dx_buffer(at, sum, Purpose::kTerms, ".dx.terms");
  std::vector<Operand> received;
  for (const DxTerm& term : sum.terms) {
    if (term.device == sum.device) {
      continue;
    }
    const HeadGradientRows rows = dx_rows_of(at, sum, term);
    for (int64_t partial = 0; partial < rows.subtrees; ++partial) {
      received.push_back({.role = Role::kReceived,
                          .access = Access::kWrite,
                          .index = term.device,
                          .offset = terms.bytes,
                          .bytes = rows.bytes});
      terms.bytes += rows.bytes;
    }
  }
  const Bytes bytes = terms.bytes;
  if (bytes > 0) {
    const BufferId id = add_buffer(std::move(terms));
    terms_[{at.head, global_micro_batch(sum.replica, at.index), at.shard}] = id;
    for (Operand& operand : received) {
      operand.buffer = id;
      exchange.operands.push_back(operand);
    }
  }
  return bytes;
}

// Adds the operands for all terms of a sum, in the order of their classes. Terms on the device itself are read in
// place, terms from other devices in the receive buffer.
void Emitter::add_dx_reads(const DxPlace& at, const DxSum& sum, Instruction& instruction) const {
  Bytes received = 0;
  for (const DxTerm& term : sum.terms) {
    if (term.device == sum.device) {
      instruction.operands.push_back(dx_operand(at, sum, term));
      continue;
    }
    const HeadGradientRows rows = dx_rows_of(at, sum, term);
    instruction.operands.push_back({.role = Role::kDx,
                                    .access = Access::kRead,
                                    .buffer = terms_.at({at.head, global_micro_batch(sum.replica, at.index), at.shard}),
                                    .index = term.shards.front(),
                                    .offset = received,
                                    .bytes = rows.bytes,
                                    .step = rows.bytes});
    received += rows.bytes * rows.subtrees;
  }
}

void Emitter::add_dx_scratch(const DxPlace& at, Instruction& sum) {
  const HeadPlan& plan = program_.heads[at.head];
  add_head_scratch(at.head, -1, dx_scratch_bytes(program_, graph_, plan, classes_of_dx_terms(sum, plan)), sum);
}

void Emitter::emit_node_sum(const DxPlace& at, const DxSum& sum) {
  const HeadGradientRows rows = dx_rows_of(at, sum, sum.result);
  Instruction sum_dx = dx_instruction(Kind::kSumDx, at, sum.device, sum.replica);
  add_dx_reads(at, sum, sum_dx);
  add_dx_scratch(at, sum_dx);
  Buffer out = dx_buffer(at, sum, Purpose::kHeadSums, ".dx.sums");
  out.bytes = rows.bytes * rows.subtrees;
  const BufferId id = add_buffer(std::move(out));
  node_sums_[{at.head, global_micro_batch(sum.replica, at.index), at.shard}] = id;
  sum_dx.operands.push_back({.role = Role::kDx,
                             .access = Access::kWrite,
                             .buffer = id,
                             .index = at.shard,
                             .bytes = rows.bytes,
                             .step = rows.bytes});
  add(std::move(sum_dx));
}

void Emitter::emit_reduce_dx(const DxPlace& at, const DxSum& sum) {
  const HeadPlan& plan = program_.heads[at.head];
  const int micro_batch = global_micro_batch(sum.replica, at.index);
  Instruction reduce = dx_instruction(Kind::kReduceDx, at, sum.device, sum.replica);
  const BufferId features = place(plan.feature, sum.device, micro_batch);
  reduce.operands.push_back(micro_batch_operand(Role::kFeature, Access::kRead, features, plan.feature, micro_batch));
  add_dx_reads(at, sum, reduce);
  add_dx_scratch(at, reduce);
  const BufferId out = add_activation(plan.feature_grad, sum.device, sum.replica, micro_batch);
  reduce.operands.push_back(
      micro_batch_operand(Role::kFeatureGradient, Access::kWrite, out, plan.feature_grad, micro_batch));
  add(std::move(reduce));
}

}  // namespace xrun::planner
