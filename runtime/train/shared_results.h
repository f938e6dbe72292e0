// What the ranks of a run bring to one another at the end of a step: per-row results, and what heads selected; and the
// digest of the weights of all of them.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "planner/program.h"
#include "runtime/comm/peers.h"
#include "runtime/device/bound_memory.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// Threads: the trainer's, between steps.
class SharedResults {
 public:
  // All outlive the object.
  SharedResults(const planner::Program& program, const BoundMemory& memory, Peers& peers)
      : program_(program), memory_(memory), peers_(peers) {}

  // Rows of these values are shared from now on.
  void share(std::span<const ValueId> values);
  // All ranks call it after a step. `mass`: the step measured the share of the active classes.
  Status exchange(bool mass);
  // The first bytes of a buffer of another rank, as they were shared; null: they were not.
  const std::vector<std::byte>* find(planner::BufferId buffer) const;

 private:
  // Of a buffer, the bytes that are shared; 0: none.
  Bytes shared_bytes(const planner::Buffer& buffer, bool mass) const;

  const planner::Program& program_;
  const BoundMemory& memory_;
  Peers& peers_;
  std::vector<ValueId> values_;
  std::map<int32_t, std::vector<std::byte>> others_;  // by index of the buffer
};

// From the ranges of each rank, which all call it.
Result<std::string> gather_digest(Peers& peers, const std::vector<RangeDigest>& mine);

}  // namespace xrun::runtime
