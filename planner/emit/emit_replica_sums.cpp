// Emits the sums of gradients over replicas (planner/program/replica_sums.h). Gradients are combined into buckets
// (`schedule.bucket`), and each bucket is summed separately. In each round, a replica receives the terms of its slices
// from the other members (kReduceScatter) and sums them (kSumReplicas). After the last round, it sends its sums to all
// other replicas (kAllGather). While the slices of one bucket are sent, those of older buckets are summed, so the
// exchanges overlap with computation.
// Tests: tests/planner/program/replica_sums_test.cpp, tests/planner/emit/buckets_test.cpp
#include <algorithm>
#include <span>

#include "planner/emit/emitter.h"

namespace xrun::planner {

// Emits the rounds of all buckets in turns. In each turn, a new bucket starts, and each bucket that has started
// continues with its next round, the newest bucket first, so that the slices of this bucket travel while older buckets
// are summed. At most `rounds + 1` buckets have terms in memory at the same time. If the last backward pass of the
// stage is cut, all buckets that are final after a segment take one turn, which follows the segment. They are summed
// after the next segment, so that no segment waits for the network.
void Emitter::emit_replica_sums(int stage_index) {
  const std::vector<Bucket> buckets = gradient_buckets(stage_index, false);
  const std::span<const Segment> segments =
      stage_index == cut_stage_ ? std::span<const Segment>(segments_) : std::span<const Segment>();
  std::vector<std::span<const Bucket>> turns;
  for (size_t first = 0; first < buckets.size(); first += turns.back().size()) {
    const auto next = std::ranges::find_if(segments, [&](const Segment& each) { return each.first_bucket > first; });
    const size_t end = next == segments.end() ? first + 1 : next->first_bucket;
    turns.push_back(std::span(buckets).subspan(first, end - first));
  }
  const size_t rounds = static_cast<size_t>(ReplicaSums(program_).rounds());
  auto segment = segments.begin();
  for (size_t turn = 0; turn < turns.size() + rounds && !turns.empty(); ++turn) {
    if (segment != segments.end() && turn < turns.size() && &buckets[segment->first_bucket] == turns[turn].data()) {
      emit_segment(*segment++);
    }
    for (size_t behind = 0; behind <= rounds; ++behind) {
      if (turn < behind || turn - behind >= turns.size()) {
        continue;
      }
      for (const Bucket& bucket : turns[turn - behind]) {
        if (behind > 0) {
          emit_sums(stage_index, static_cast<int>(behind) - 1, bucket);
        }
        if (behind < rounds) {
          emit_slices_to_owners(stage_index, static_cast<int>(behind), bucket);
        } else {
          emit_slices_to_all(stage_index, bucket);
        }
      }
    }
  }
}

// Emits an exchange among the members of each sum, in which the owners of slices receive their terms.
void Emitter::emit_slices_to_owners(int stage_index, int round, const Bucket& bucket) {
  const ReplicaSums sums = sums_of(bucket.front());
  for (int first = 0; first < program_.replicas; ++first) {
    const std::vector<int> members = sums.members(round, first);
    if (members.front() != first) {
      continue;
    }
    bool any = false;  // whether any block is sent: small gradients may have no elements for some members
    for (const int replica : members) {
      Instruction exchange = slices_to_owners(stage_index, replica, round, bucket);
      if (!exchange.operands.empty()) {
        add(std::move(exchange));
        any = true;
      }
    }
    groups_ += any ? 1 : 0;
  }
}

void Emitter::emit_sums(int stage_index, int round, const Bucket& bucket) {
  for (int replica = 0; replica < program_.replicas; ++replica) {
    Instruction sum = sum_of_slices(stage_index, replica, round, bucket);
    if (!sum.operands.empty()) {
      add(std::move(sum));
    }
  }
}

void Emitter::emit_slices_to_all(int stage_index, const Bucket& bucket) {
  for (int replica = 0; replica < program_.replicas; ++replica) {
    add(slices_to_all(stage_index, replica, bucket));
  }
  ++groups_;
}

// Returns the buckets of the compressed gradients of a stage, or of its other gradients. Gradients are in the order in
// which the backward pass makes them, which is equal for all members of an exchange. A gradient that is larger than a
// bucket has a bucket of its own. Buckets that are sent during the backward pass are smaller if the stage has few
// gradients, so that the first one can leave soon, and little is left to send at the end.
std::vector<Emitter::Bucket> Emitter::gradient_buckets(int stage_index, bool compressed) const {
  const auto& gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  constexpr Bytes kLeastBuckets = 8;
  Bytes most = request_.module.schedule.bucket;
  if (decision_.early_buckets) {
    Bytes sum = 0;
    for (const ParamId param : gradients) {
      sum += type(graph_.param_grads[param]).bytes(0, program_.norm_rows);
    }
    most = std::min(most, sum / kLeastBuckets);
  }
  std::vector<Bucket> buckets;
  Bytes space = 0;
  for (const ParamId param : gradients) {
    if (is_compressed(param) != compressed) {
      continue;
    }
    const Bytes bytes = type(graph_.param_grads[param]).bytes(0, program_.norm_rows);
    if (buckets.empty() || bytes > space) {
      buckets.emplace_back();
      space = most;
    }
    buckets.back().push_back(param);
    space -= bytes;
  }
  return buckets;
}

int64_t Emitter::gradient_elements(ParamId param) const { return type(graph_.param_grads[param]).elements(0, 0); }

// Returns the operand for a slice of a gradient on a device that has a replica.
Operand Emitter::slice_operand(Role role, ParamId param, int device, Slice slice) const {
  Operand operand = gradient_operand(role, role == Role::kSent ? Access::kRead : Access::kWrite, param, device);
  operand.offset = slice.offset;
  operand.bytes = slice.bytes;
  operand.param = role == Role::kSum ? param : ParamId();
  return operand;
}

// Returns the instruction of one member of an exchange, without operands for the blocks.
Instruction Emitter::slice_exchange(Kind kind, int stage_index, int replica) const {
  return {.kind = kind,
          .device = device_of(stage_index, replica),
          .stream = comm_stream(),
          .stage = stage_index,
          .replica = replica,
          .group = groups_};
}

Instruction Emitter::slices_to_owners(int stage_index, int replica, int round, const Bucket& bucket) {
  Instruction exchange = slice_exchange(Kind::kReduceScatter, stage_index, replica);
  for (const ParamId param : bucket) {
    const ReplicaSums sums = sums_of(param);
    const int64_t count = gradient_elements(param);
    const Bytes own = sums.slice(count, round, replica).bytes;
    exchange.bytes += align_up(sums.shared(count, round, replica).bytes);
    BufferId& terms = gradient_terms_[{param, exchange.device}];
    if (own > 0 && round == 0) {
      terms = add_buffer({.device = exchange.device,
                          .purpose = Purpose::kTerms,
                          .bytes = sums.terms(count, replica),
                          .param = param,
                          .replica = replica,
                          .name = graph_.param(param).name + ".terms"});
    }
    Bytes place = 0;
    for (const int other : sums.members(round, replica)) {
      if (other == replica) {
        continue;
      }
      Operand sent = slice_operand(Role::kSent, param, exchange.device, sums.slice(count, round, other));
      sent.index = device_of(stage_index, other);
      if (sent.bytes > 0) {
        exchange.operands.push_back(sent);
      }
      if (own > 0) {
        exchange.operands.push_back({.role = Role::kReceived,
                                     .access = Access::kWrite,
                                     .buffer = terms,
                                     .index = sent.index,
                                     .offset = place,
                                     .bytes = own});
      }
      place += own;
    }
  }
  return exchange;
}

Instruction Emitter::sum_of_slices(int stage_index, int replica, int round, const Bucket& bucket) const {
  Instruction sum{
      .kind = Kind::kSumReplicas, .device = device_of(stage_index, replica), .stage = stage_index, .replica = replica};
  for (const ParamId param : bucket) {
    const ReplicaSums sums = sums_of(param);
    const Slice slice = sums.slice(gradient_elements(param), round, replica);
    if (slice.bytes == 0) {
      continue;
    }
    sum.operands.push_back(slice_operand(Role::kSum, param, sum.device, slice));
    sum.operands.back().access = Access::kUpdate;
    Bytes place = 0;
    for (const int other : sums.members(round, replica)) {
      if (other != replica) {
        sum.operands.push_back({.role = Role::kTerm,
                                .access = Access::kUpdate,
                                .buffer = gradient_terms_.at({param, sum.device}),
                                .param = param,
                                .index = other,
                                .offset = place,
                                .bytes = slice.bytes});
        place += slice.bytes;
      }
    }
  }
  return sum;
}

Instruction Emitter::slices_to_all(int stage_index, int replica, const Bucket& bucket) const {
  const ReplicaSums sums(program_);
  Instruction gather = slice_exchange(Kind::kAllGather, stage_index, replica);
  for (const ParamId param : bucket) {
    const int64_t count = gradient_elements(param);
    gather.bytes += align_up(count * static_cast<Bytes>(sizeof(float)));
    const int last = sums.rounds() - 1;
    Operand sent = slice_operand(Role::kSent, param, gather.device, sums.slice(count, last, replica));
    for (int other = 0; other < program_.replicas && sent.bytes > 0; ++other) {
      sent.index = device_of(stage_index, other);
      if (other != replica) {
        append_block(gather.operands, sent);
      }
    }
    // The slices of the replicas that have the same place in their nodes are contiguous.
    Operand received = slice_operand(Role::kReceived, param, gather.device, {});
    for (int place = 0; place < program_.node_replicas; ++place) {
      for (int other = place; other < program_.replicas; other += program_.node_replicas) {
        const Slice slice = sums.slice(count, last, other);
        received.index = device_of(stage_index, other);
        received.offset = slice.offset;
        received.bytes = slice.bytes;
        if (other != replica && received.bytes > 0) {
          append_block(gather.operands, received);
        }
      }
    }
  }
  return gather;
}

}  // namespace xrun::planner
