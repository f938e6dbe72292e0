// Sums of gradients over replicas. Replica r owns slice r of every gradient of its stage: it receives the terms of the
// others, sums them (kSumReplicas), and sends the sum to the others.
#include "planner/emit/emitter.h"

namespace xrun::planner {

void Emitter::emit_replica_sums(int stage_index) {
  if (summed_gradients(stage_index).empty()) {
    return;
  }
  for (int replica = 0; replica < program_.replicas; ++replica) {
    add(slices_to_owners(stage_index, replica));
  }
  ++groups_;
  for (int replica = 0; replica < program_.replicas; ++replica) {
    Instruction sum = sum_of_slices(stage_index, replica);
    if (!sum.operands.empty()) {
      add(std::move(sum));
    }
  }
  for (int replica = 0; replica < program_.replicas; ++replica) {
    add(slices_to_all(stage_index, replica));
  }
  ++groups_;
}

// The gradients that a stage sums, in the order of the parameters, which is the same for all members of an exchange.
std::set<ParamId> Emitter::summed_gradients(int stage_index) const {
  const auto& gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  std::set<ParamId> summed(gradients.begin(), gradients.end());
  std::erase_if(summed, [&](ParamId param) { return is_compressed(param); });
  return summed;
}

// The slice of a gradient that `replica` sums, on a device that has a replica.
Operand Emitter::slice_operand(Role role, ParamId param, int device, int replica) const {
  Operand operand = gradient_operand(role, role == Role::kSent ? Access::kRead : Access::kWrite, param, device);
  const int64_t count = operand.bytes / 4;
  const int64_t begin = count * replica / program_.replicas;
  operand.offset = begin * 4;
  operand.bytes = (count * (replica + 1) / program_.replicas - begin) * 4;
  operand.param = role == Role::kSum ? param : ParamId();
  return operand;
}

// A member of an exchange of all slices, without its blocks.
Instruction Emitter::slice_exchange(Kind kind, int stage_index, int replica) const {
  Instruction exchange{.kind = kind,
                       .device = device_of(stage_index, replica),
                       .stream = comm_stream(),
                       .stage = stage_index,
                       .replica = replica,
                       .group = groups_};
  for (const ParamId param : summed_gradients(stage_index)) {
    exchange.bytes += align_up(gradient_operand(Role::kSum, Access::kUpdate, param, exchange.device).bytes);
  }
  return exchange;
}

Instruction Emitter::slices_to_owners(int stage_index, int replica) {
  Instruction exchange = slice_exchange(Kind::kReduceScatter, stage_index, replica);
  for (const ParamId param : summed_gradients(stage_index)) {
    const Bytes own = slice_operand(Role::kSum, param, exchange.device, replica).bytes;
    BufferId terms;
    if (own > 0) {
      terms = gradient_terms_[{param, exchange.device}] = add_buffer({.device = exchange.device,
                                                                      .purpose = Purpose::kTerms,
                                                                      .bytes = own * (program_.replicas - 1),
                                                                      .param = param,
                                                                      .replica = replica,
                                                                      .name = graph_.param(param).name + ".terms"});
    }
    for (int other = 0, place = 0; other < program_.replicas; ++other) {
      if (other == replica) {
        continue;
      }
      Operand sent = slice_operand(Role::kSent, param, exchange.device, other);
      sent.index = device_of(stage_index, other);
      if (sent.bytes > 0) {
        exchange.operands.push_back(sent);
      }
      if (own > 0) {
        exchange.operands.push_back({.role = Role::kReceived,
                                     .access = Access::kWrite,
                                     .buffer = terms,
                                     .index = sent.index,
                                     .offset = own * place++,
                                     .bytes = own});
      }
    }
  }
  return exchange;
}

Instruction Emitter::sum_of_slices(int stage_index, int replica) const {
  Instruction sum{
      .kind = Kind::kSumReplicas, .device = device_of(stage_index, replica), .stage = stage_index, .replica = replica};
  for (const ParamId param : summed_gradients(stage_index)) {
    Operand own = slice_operand(Role::kSum, param, sum.device, replica);
    if (own.bytes == 0) {
      continue;
    }
    own.access = Access::kUpdate;
    sum.operands.push_back(own);
    for (int other = 0, place = 0; other < program_.replicas; ++other) {
      if (other != replica) {
        sum.operands.push_back({.role = Role::kTerm,
                                .access = Access::kUpdate,
                                .buffer = gradient_terms_.at({param, sum.device}),
                                .param = param,
                                .index = other,
                                .offset = own.bytes * place++,
                                .bytes = own.bytes});
      }
    }
  }
  return sum;
}

Instruction Emitter::slices_to_all(int stage_index, int replica) const {
  Instruction gather = slice_exchange(Kind::kAllGather, stage_index, replica);
  for (const ParamId param : summed_gradients(stage_index)) {
    for (int other = 0; other < program_.replicas; ++other) {
      if (other == replica) {
        continue;
      }
      for (const Role role : {Role::kSent, Role::kReceived}) {
        Operand slice = slice_operand(role, param, gather.device, role == Role::kSent ? replica : other);
        slice.index = device_of(stage_index, other);
        if (slice.bytes > 0) {
          gather.operands.push_back(slice);
        }
      }
    }
  }
  return gather;
}

}  // namespace xrun::planner
