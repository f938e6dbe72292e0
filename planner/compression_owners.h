// Determines which replicas compress gradients (`train.compress`), and which gradients. Usually each replica is a
// sender: it compresses its own gradients. With `per_node = true` the replicas of a node are one sender: one of them,
// the owner of a tensor, receives the tensor's gradients whole from the others, sums them and compresses the sum.
// Tensors are distributed over the replicas of a node so that each owns about the same number of elements
// (docs/internals/algorithms.md, "Gradient compression").
#pragma once

#include <span>
#include <vector>

#include "graph/module.h"
#include "planner/machine.h"
#include "planner/program.h"
#include "planner/replica_sums.h"

namespace xrun::planner {

class CompressionOwners {
 public:
  CompressionOwners() = default;
  CompressionOwners(const Program& program, const Module& module);

  // Whether gradients of the weight are compressed; false for an invalid id.
  bool compresses(ParamId param) const { return param.valid() && places_[static_cast<size_t>(param.index)] >= 0; }
  // Whether `replica` compresses its gradients. REQUIRES, as the next one: compresses(param).
  bool owns(ParamId param, int replica) const {
    return replica % sender_replicas_ == places_[static_cast<size_t>(param.index)];
  }
  // The sums before the compression; without terms if each replica is a sender.
  ReplicaSums sums(ParamId param) const {
    return ReplicaSums::over_runs(replicas_, sender_replicas_, places_[static_cast<size_t>(param.index)]);
  }
  // The index of a replica's sender among the pairs of all senders.
  int sender_of(int replica) const { return replica / sender_replicas_; }

 private:
  int replicas_ = 1;
  int sender_replicas_ = 1;
  std::vector<int> places_;  // index: parameter; the owner among the replicas of a sender, -1 if sent whole
};

// Program::sender_replicas on this machine, for a training program. `stages` has the devices of each stage, by replica.
int replicas_of_sender(const CompressSpec& compress, const Machine& machine, std::span<const std::vector<int>> stages);

}  // namespace xrun::planner
