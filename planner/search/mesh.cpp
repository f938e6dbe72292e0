#include "planner/search/mesh.h"

#include <algorithm>
#include <set>

#include "graph/layouts/head_shape.h"

namespace xrun::planner {

std::vector<NodeLimit> node_limits(const Machine& machine, const Mesh& mesh, const std::vector<Bytes>& limits) {
  std::vector<NodeLimit> nodes;
  for (const Bytes limit : limits) {
    nodes.push_back({limit, std::vector<int>(static_cast<size_t>(mesh.stages), 0)});
  }
  for (int s = 0; s < mesh.stages && !nodes.empty(); ++s) {
    for (int r = 0; r < mesh.replicas; ++r) {
      ++nodes[static_cast<size_t>(machine.node_of(mesh.device_of(s, r)))].replicas[static_cast<size_t>(s)];
    }
  }
  return nodes;
}

std::vector<int> shard_devices(const Machine& machine, const ShardHint* hint, int wanted) {
  std::vector<int> devices;
  if (hint != nullptr && hint->by_node) {
    std::set<int> known;
    for (int device = 0; device < machine.devices; ++device) {
      if (known.insert(machine.node_of(device)).second) {
        devices.push_back(device);
      }
    }
    return devices;
  }
  const auto hinted = hint != nullptr ? static_cast<int>(hint->shards) : 0;
  const int count = hinted > 0 ? hinted : wanted > 0 ? wanted : machine.devices;
  for (int shard = 0; shard < count; ++shard) {
    devices.push_back(shard % machine.devices);
  }
  return devices;
}

std::vector<HeadShard> place_shards(int head, const ClassBlocks& blocks, const std::vector<int>& devices) {
  const auto count = static_cast<int>(devices.size());
  std::vector<HeadShard> placed;
  for (int r = 0; r < count; ++r) {
    const ClassRange rows = blocks.rows_of_shard(r, count);
    placed.push_back({.head = head,
                      .shard = r,
                      .device = devices[static_cast<size_t>(r)],
                      .row_begin = rows.begin,
                      .row_end = rows.end});
  }
  return placed;
}

}  // namespace xrun::planner
