// Compressed gradients: senders take the largest elements out of their accumulated gradients (kCompress), and all
// replicas receive them as pairs, which the update adds in the order of the senders. A sender is a replica, or the
// replicas of a node, which sum their gradients first (planner/program/compression_owners.h).
// Tests: tests/planner/verify/verify_compression_test.cpp
#include <algorithm>
#include <iterator>

#include "planner/emit/emitter.h"

namespace xrun::planner {

std::vector<ParamId> Emitter::compressed_gradients(int stage_index) const {
  const auto& gradients = flow_.stages[static_cast<size_t>(stage_index)].gradients;
  const std::set<ParamId> ordered(gradients.begin(), gradients.end());
  std::vector<ParamId> compressed;
  std::ranges::copy_if(ordered, std::back_inserter(compressed), [&](ParamId param) { return is_compressed(param); });
  return compressed;
}

// Whether gradients are compressed after the sums of squares of all gradients are known. Compression changes the states
// of the senders, and a step whose gradients are not finite changes no state.
bool Emitter::compresses_late() const { return request_.module.train.loss_scale.is_on(); }

void Emitter::emit_compression(int stage_index) {
  const std::vector<ParamId> compressed = compressed_gradients(stage_index);
  if (compressed.empty()) {
    return;
  }
  for (int replica = 0; replica < program_.replicas; ++replica) {
    const int device = device_of(stage_index, replica);
    for (const ParamId param : compressed) {
      pairs_[{param, device}] = add_buffer({.device = device,
                                            .purpose = Purpose::kPairs,
                                            .bytes = pairs_bytes(request_.module, param) * program_.senders(),
                                            .param = param,
                                            .replica = replica,
                                            .name = graph_.param(param).name + ".pairs"});
    }
    Instruction one = compress(compressed, stage_index, replica);
    if (!one.operands.empty()) {
      add(std::move(one));
    }
  }
  if (program_.replicas > 1) {
    emit_gather_of_pairs(compressed, stage_index);
  }
}

// Emits the sums over the replicas of each sender, before the compression. While the gradients of a bucket travel to
// their owners, the gradients of the previous bucket are summed.
void Emitter::emit_sender_sums(int stage_index) {
  if (program_.sender_replicas == 1 || compressed_gradients(stage_index).empty()) {
    return;
  }
  const std::vector<Bucket> buckets = gradient_buckets(stage_index, true);
  for (size_t turn = 0; turn <= buckets.size(); ++turn) {
    if (turn < buckets.size()) {
      emit_slices_to_owners(stage_index, 0, buckets[turn]);
    }
    if (turn > 0) {
      emit_sums(stage_index, 0, buckets[turn - 1]);
    }
  }
}

// Returns the instruction that compresses the gradients that a replica owns.
Instruction Emitter::compress(const std::vector<ParamId>& compressed, int stage_index, int replica) const {
  const int device = device_of(stage_index, replica);
  Instruction compress{.kind = Kind::kCompress, .device = device, .stage = stage_index, .replica = replica};
  for (const ParamId param : compressed) {
    if (!owners_.owns(param, replica)) {
      continue;
    }
    compress.operands.push_back(gradient_operand(Role::kGradient, Access::kRead, param, device));
    compress.operands.push_back(whole(Role::kWeight, Access::kRead, weights_.at({param, device})));
    compress.operands.back().param = param;
    for (const BufferId state : optimizer_.at({param, device})) {
      compress.operands.push_back(whole(Role::kState, Access::kUpdate, state));
      compress.operands.back().param = param;
      compress.operands.back().index = program_.buffer(state).state;
    }
    const Bytes bytes = pairs_bytes(request_.module, param);
    compress.operands.push_back({.role = Role::kPairs,
                                 .access = Access::kWrite,
                                 .buffer = pairs_.at({param, device}),
                                 .param = param,
                                 .offset = bytes * owners_.sender_of(replica),
                                 .bytes = bytes});
  }
  if (compresses_late() && !compress.operands.empty()) {
    compress.operands.push_back(whole(Role::kNorms, Access::kRead, norms_.at(device)));
  }
  return compress;
}

// Emits the exchange in which owners send their pairs to all other replicas, including those of their own node.
void Emitter::emit_gather_of_pairs(const std::vector<ParamId>& compressed, int stage_index) {
  std::vector<Instruction> gathers;  // index: replica
  for (int replica = 0; replica < program_.replicas; ++replica) {
    gathers.push_back(slice_exchange(Kind::kAllGather, stage_index, replica));
  }
  const std::vector<Operand> sent = blocks_to_replicas(stage_index);
  Bytes usual = 0;  // bytes that one sender sends in a step after the warm-up
  for (const ParamId param : compressed) {
    usual += pairs_of(gradient_elements(param), request_.module.train.compress.density) *
             static_cast<Bytes>(sizeof(GradientPair));
    const Bytes bytes = pairs_bytes(request_.module, param);
    std::vector<Operand> received;
    for (int replica = 0; replica < program_.replicas; ++replica) {
      if (owners_.owns(param, replica)) {
        append_block(received, {.role = Role::kReceived,
                                .access = Access::kWrite,
                                .index = device_of(stage_index, replica),
                                .offset = bytes * owners_.sender_of(replica),
                                .bytes = bytes});
      }
    }
    for (Instruction& gather : gathers) {
      const BufferId buffer = pairs_.at({param, gather.device});
      for (Operand run : owners_.owns(param, gather.replica) ? sent : std::vector<Operand>()) {
        run.buffer = buffer;
        run.offset = bytes * owners_.sender_of(gather.replica);
        run.bytes = bytes;
        append_others(gather.operands, run, gather.device);
      }
      for (Operand run : received) {
        run.buffer = buffer;
        append_others(gather.operands, run, gather.device);
      }
    }
  }
  for (Instruction& gather : gathers) {
    gather.bytes = usual * program_.senders();
    add(std::move(gather));
  }
  ++groups_;
}

}  // namespace xrun::planner
