// Mesh: determines the device of each stage of each replica, and of each shard of a head (docs/internals/algorithms.md,
// "Mesh").
#pragma once

#include <vector>

#include "planner/partition/partition.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

struct Mesh {
  int devices = 1;
  int stages = 1;
  int replicas = 1;
  PipelineKind pipeline = PipelineKind::kGpipe;
  int chunks = 1;  // stages on each device of a replica

  int ranks() const { return stages / chunks; }
  // Returns the position of a stage's device among the devices of a replica: kInterleaved deals the stages out in turn,
  // kZbV goes through the devices and back.
  int rank_of(int stage) const {
    return pipeline == PipelineKind::kZbV && stage >= ranks() ? stages - 1 - stage : stage % ranks();
  }
  // Devices beyond ranks x replicas have only head shards.
  int device_of(int stage, int replica) const { return replica * ranks() + rank_of(stage); }
};

// Returns the limits of nodes, of which `limits` has the bytes, for the stages that are on them.
std::vector<NodeLimit> node_limits(const Machine& machine, const Mesh& mesh, const std::vector<Bytes>& limits);

// Returns the device of each shard of a head, according to the hint. Without a hint (null) there is one shard on each
// of the first `wanted` devices, or on every device if `wanted` is 0.
std::vector<int> shard_devices(const Machine& machine, const ShardHint* hint, int wanted);
// Divides the class rows of a head into one shard for each entry of `devices`; shard r is on devices[r]. A shard owns
// whole class blocks and may be empty.
std::vector<HeadShard> place_shards(int head, const ClassBlocks& blocks, const std::vector<int>& devices);

}  // namespace xrun::planner
