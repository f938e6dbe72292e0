// Sums of gradients over replicas, bucket by bucket (`schedule.bucket`). Replica r owns slice r of every gradient of
// its stage: it receives the terms of the others, sums them (kSumReplicas), and sends the sum to the others.
#include "planner/emit/emitter.h"

namespace xrun::planner {

// The slices of a bucket travel while those before it are summed, and no more than two buckets have terms in memory.
void Emitter::emit_replica_sums(int stage_index) {
  const std::vector<Bucket> buckets = gradient_buckets(stage_index);
  if (!buckets.empty()) {
    emit_slices_to_owners(stage_index, buckets[0]);
  }
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (i + 1 < buckets.size()) {
      emit_slices_to_owners(stage_index, buckets[i + 1]);
    }
    for (int replica = 0; replica < program_.replicas; ++replica) {
      Instruction sum = sum_of_slices(stage_index, replica, buckets[i]);
      if (!sum.operands.empty()) {
        add(std::move(sum));
      }
    }
    for (int replica = 0; replica < program_.replicas; ++replica) {
      add(slices_to_all(stage_index, replica, buckets[i]));
    }
    ++groups_;
  }
}

void Emitter::emit_slices_to_owners(int stage_index, const Bucket& bucket) {
  for (int replica = 0; replica < program_.replicas; ++replica) {
    add(slices_to_owners(stage_index, replica, bucket));
  }
  ++groups_;
}

// The gradients that a stage sums, in the order of the parameters, which is the same for all members of an exchange. A
// gradient that is larger than a bucket has one to itself.
std::vector<Emitter::Bucket> Emitter::gradient_buckets(int stage_index) const {
  const auto& gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  std::vector<Bucket> buckets;
  Bytes room = 0;
  for (const ParamId param : std::set<ParamId>(gradients.begin(), gradients.end())) {
    if (is_compressed(param)) {
      continue;
    }
    const Bytes bytes = type(graph_.param_grads[param]).bytes(0, program_.norm_rows);
    if (buckets.empty() || bytes > room) {
      buckets.emplace_back();
      room = request_.module.schedule.bucket;
    }
    buckets.back().push_back(param);
    room -= bytes;
  }
  return buckets;
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
Instruction Emitter::slice_exchange(Kind kind, int stage_index, int replica, const Bucket& bucket) const {
  Instruction exchange{.kind = kind,
                       .device = device_of(stage_index, replica),
                       .stream = comm_stream(),
                       .stage = stage_index,
                       .replica = replica,
                       .group = groups_};
  for (const ParamId param : bucket) {
    exchange.bytes += align_up(gradient_operand(Role::kSum, Access::kUpdate, param, exchange.device).bytes);
  }
  return exchange;
}

Instruction Emitter::slices_to_owners(int stage_index, int replica, const Bucket& bucket) {
  Instruction exchange = slice_exchange(Kind::kReduceScatter, stage_index, replica, bucket);
  for (const ParamId param : bucket) {
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

Instruction Emitter::sum_of_slices(int stage_index, int replica, const Bucket& bucket) const {
  Instruction sum{
      .kind = Kind::kSumReplicas, .device = device_of(stage_index, replica), .stage = stage_index, .replica = replica};
  for (const ParamId param : bucket) {
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

Instruction Emitter::slices_to_all(int stage_index, int replica, const Bucket& bucket) const {
  Instruction gather = slice_exchange(Kind::kAllGather, stage_index, replica, bucket);
  for (const ParamId param : bucket) {
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
