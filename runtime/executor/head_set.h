// The kernels of a program's heads: passes of each shard and the joining of shards, made once.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "ops/head.h"
#include "planner/program.h"

namespace xrun::runtime {

// Threads: immutable.
class HeadSet {
 public:
  HeadSet(const Graph& graph, const planner::Program& program, ops::Isa isa);

  // Of a shard with rows, for `rows` rows: HeadPlan::rows, or the batch for sweeps over the step.
  const ops::HeadPasses& passes(int head, int shard, int64_t rows) const;
  const ops::HeadJoin& join(int head) const { return *joins_[static_cast<size_t>(head)]; }

  // Offsets of the parts of shards in buffers that have all of a head's (kHeadStats), or all of a device's
  // (kHeadGradient). A shard without rows has no bytes.
  Bytes stats_offset(int head, int shard) const;
  Bytes stats_bytes(int head, int shard) const;
  Bytes gradient_offset(int head, int shard) const;
  Bytes gradient_bytes(int head, int shard) const;

 private:
  struct Part {
    Bytes stats_offset = 0;
    Bytes stats = 0;
    Bytes gradient_offset = 0;
    Bytes gradient = 0;
  };
  std::map<std::pair<int, std::pair<int, int64_t>>, std::unique_ptr<ops::HeadPasses>> passes_;
  std::vector<std::unique_ptr<ops::HeadJoin>> joins_;
  std::vector<std::vector<Part>> parts_;  // by head and shard
};

}  // namespace xrun::runtime
