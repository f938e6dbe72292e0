// Determines which replica compresses which gradients (`train.compress`). Usually each replica is a sender, which
// compresses its own gradients. With `per_node = true` the replicas of a node together are one sender. For each tensor,
// one of these replicas is the owner: it receives the uncompressed gradients of the tensor from the other replicas of
// the node, sums them and compresses the sum. The tensors are distributed so that each replica of a node owns about the
// same number of elements (docs/internals/algorithms.md, "Gradient compression").
#pragma once

#include <span>
#include <vector>

#include "graph/module.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"
#include "planner/program/replica_sums.h"

namespace xrun::planner {

class CompressionOwners {
 public:
  CompressionOwners() = default;
  CompressionOwners(const Program& program, const Module& module);

  // Whether gradients of the weight are compressed; false for an invalid id.
  bool compresses(ParamId param) const { return param.valid() && places_[static_cast<size_t>(param.index)] >= 0; }
  // Whether `replica` is the owner of the weight's gradients in its sender, and so compresses them. REQUIRES, here and
  // in `sums`: compresses(param).
  bool owns(ParamId param, int replica) const {
    return replica % sender_replicas_ == places_[static_cast<size_t>(param.index)];
  }
  // Returns the sums over the replicas of each sender before compression; no terms if each replica is a sender.
  ReplicaSums sums(ParamId param) const {
    return ReplicaSums::over_runs(replicas_, sender_replicas_, places_[static_cast<size_t>(param.index)]);
  }
  // Returns the index of a replica's sender among all senders.
  int sender_of(int replica) const { return replica / sender_replicas_; }

 private:
  int replicas_ = 1;
  int sender_replicas_ = 1;
  std::vector<int> places_;  // index: parameter; position of the owner in its sender; -1: gradients are sent whole
};

// Returns Program::sender_replicas of a training program on this machine. `stages` has the devices of each stage, by
// replica.
int replicas_of_sender(const CompressSpec& compress, const Machine& machine, std::span<const std::vector<int>> stages);

}  // namespace xrun::planner
