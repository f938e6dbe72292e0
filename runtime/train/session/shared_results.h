// Sends results to all ranks of a run at the end of a step: per-row values and the selections of heads. It also
// computes the digest of the weights of all ranks.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "planner/program/program.h"
#include "runtime/comm/peers.h"
#include "runtime/device/bound_memory.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Threads: the trainer's, between steps.
class SharedResults {
 public:
  // All arguments outlive the object.
  SharedResults(const planner::Program& program, const BoundMemory& memory, Peers& peers)
      : program_(program), memory_(memory), peers_(peers) {}

  // Makes later calls of `exchange` also share the rows of these values.
  void share(std::span<const ValueId> values);
  // Sends the results of this rank to all ranks and receives theirs. Collective: all ranks call it after a step.
  // `mass`: the step measured the softmax share of the active classes, which is then also shared.
  Status exchange(bool mass);
  // Returns the shared start of a buffer that is on another rank, from the last exchange; null if it is not shared.
  const std::vector<std::byte>* find(planner::BufferId buffer) const;

 private:
  // The number of bytes at the start of a buffer that are shared; 0: the buffer is not shared.
  Bytes shared_bytes(const planner::Buffer& buffer, bool mass) const;

  const planner::Program& program_;
  const BoundMemory& memory_;
  Peers& peers_;
  std::vector<ValueId> values_;
  std::map<int32_t, std::vector<std::byte>> others_;  // key: index of the buffer; value: its shared bytes
};

// Computes the digest of all weights from the ranges of each rank. Collective: all ranks call it.
Result<std::string> gather_digest(Peers& peers, const std::vector<RangeDigest>& mine);

}  // namespace xrun::runtime
