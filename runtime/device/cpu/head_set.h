// The kernels of a program's heads, created once: the passes over each shard, and the kernels that combine the results
// of all shards.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/head/head.h"
#include "ops/head/mass.h"
#include "planner/program/program.h"

namespace xrun::runtime {

// Threads: immutable.
class HeadSet {
 public:
  HeadSet(const Graph& graph, const planner::Program& program, ops::Isa isa);

  // The passes over a shard, which must not be empty. `rows`: number of rows in a pass: HeadPlan::rows, or the whole
  // batch for passes over the whole step.
  const ops::HeadPasses& passes(int head, int shard, int64_t rows) const;
  // REQUIRES: the head has active classes, and the shard is not empty.
  const ops::HeadMass& mass(int head, int shard) const { return *masses_.at({head, shard}); }
  const ops::HeadJoin& join(int head) const { return *joins_[static_cast<size_t>(head)]; }
  // The kernel that sums the terms of the kReduceDx or kSumDx instruction `sum`.
  const ops::HeadJoin& join_of_dx(planner::InstructionId sum) const { return *joins_of_dx_.at(sum); }

 private:
  std::map<std::pair<int, std::pair<int, int64_t>>, std::unique_ptr<ops::HeadPasses>> passes_;
  std::map<std::pair<int, int>, std::unique_ptr<ops::HeadMass>> masses_;
  std::vector<std::unique_ptr<ops::HeadJoin>> joins_;
  std::map<planner::InstructionId, std::shared_ptr<const ops::HeadJoin>> joins_of_dx_;
};

}  // namespace xrun::runtime
