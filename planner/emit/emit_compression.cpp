// Compressed gradients: each replica takes the largest elements out of its accumulated gradients (kCompress), and all
// replicas exchange them as pairs, which the update adds in the order of the replicas.
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

// The pairs of `replica`, on a device that has a replica.
Operand Emitter::pairs_operand(Role role, ParamId param, int device, int replica) const {
  const Bytes bytes = pairs_bytes(request_.module, param);
  return {.role = role,
          .access = role == Role::kSent ? Access::kRead : Access::kWrite,
          .buffer = pairs_.at({param, device}),
          .offset = bytes * replica,
          .bytes = bytes};
}

void Emitter::emit_compression(int stage_index) {
  const std::vector<ParamId> compressed = compressed_gradients(stage_index);
  if (compressed.empty()) {
    return;
  }
  Bytes sent = 0;  // by one replica, at the density that holds for most of the run
  for (const ParamId param : compressed) {
    const int64_t count = type(graph_.param(param).value).elements(0, 0);
    sent += pairs_of(count, request_.module.train.compress.density) * static_cast<Bytes>(sizeof(GradientPair));
  }
  for (int replica = 0; replica < program_.replicas; ++replica) {
    const int device = device_of(stage_index, replica);
    Instruction compress{.kind = Kind::kCompress, .device = device, .stage = stage_index, .replica = replica};
    for (const ParamId param : compressed) {
      pairs_[{param, device}] = add_buffer({.device = device,
                                            .purpose = Purpose::kPairs,
                                            .bytes = pairs_bytes(request_.module, param) * program_.replicas,
                                            .param = param,
                                            .replica = replica,
                                            .name = graph_.param(param).name + ".pairs"});
      compress.operands.push_back(gradient_operand(Role::kGradient, Access::kRead, param, device));
      compress.operands.push_back(whole(Role::kWeight, Access::kRead, weights_.at({param, device})));
      compress.operands.back().param = param;
      for (const BufferId state : optimizer_.at({param, device})) {
        compress.operands.push_back(whole(Role::kState, Access::kUpdate, state));
        compress.operands.back().param = param;
        compress.operands.back().index = program_.buffer(state).state;
      }
      compress.operands.push_back(pairs_operand(Role::kPairs, param, device, replica));
      compress.operands.back().param = param;
    }
    add(std::move(compress));
  }
  if (program_.replicas == 1) {
    return;
  }
  for (int replica = 0; replica < program_.replicas; ++replica) {
    Instruction gather{.kind = Kind::kAllGather,
                       .device = device_of(stage_index, replica),
                       .stream = comm_stream(),
                       .stage = stage_index,
                       .replica = replica,
                       .group = groups_,
                       .bytes = sent * program_.replicas};
    for (const ParamId param : compressed) {
      for (int other = 0; other < program_.replicas; ++other) {
        for (const Role role : {Role::kSent, Role::kReceived}) {
          if (other != replica) {
            gather.operands.push_back(pairs_operand(role, param, gather.device, role == Role::kSent ? replica : other));
            gather.operands.back().index = device_of(stage_index, other);
          }
        }
      }
    }
    add(std::move(gather));
  }
  ++groups_;
}

}  // namespace xrun::planner
