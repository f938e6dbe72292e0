#include "planner/search/mesh.h"

#include <algorithm>

#include "graph/head_shape.h"

namespace xrun::planner {

int default_replicas(int devices, int stages, int micro_batches, int partials) {
  for (int r = std::min(devices / stages, kMostReplicas); r > 1; --r) {
    if (micro_batches % r == 0 && (partials == 0 || partials % r == 0)) {
      return r;
    }
  }
  return 1;
}

std::vector<HeadShard> place_shards(int head, const ClassBlocks& blocks, int shards, int devices) {
  const int count = shards > 0 ? shards : devices;
  std::vector<HeadShard> placed;
  for (int r = 0; r < count; ++r) {
    const ClassRange rows = blocks.rows_of_shard(r, count);
    placed.push_back({.head = head, .shard = r, .device = r % devices, .row_begin = rows.begin, .row_end = rows.end});
  }
  return placed;
}

}  // namespace xrun::planner
