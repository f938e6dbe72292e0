// Tests: tests/planner/partition/shared_limits_test.cpp
#include "planner/partition/greedy_recompute.h"

#include <algorithm>

#include "planner/partition/priced_stages.h"

namespace xrun::planner {
namespace {

// A layer of a stage, with the bytes that it keeps on one replica, and the seconds that a byte of them costs.
struct Item {
  size_t stage = 0;
  int layer = 0;
  Bytes bytes = 0;
  double price = 0;
};

// The layers of a stage that run again, or those that keep their values.
void add_items(const PartitionRequest& request, const Partition& partition, size_t s, bool again,
               std::vector<Item>& items) {
  const PartitionStage& stage = partition.stages[s];
  const Bytes held = micro_batches_held(request, static_cast<int>(s));
  for (int l = stage.begin; l < stage.end; ++l) {
    const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
    if (layer.saved > 0 && std::ranges::binary_search(stage.recomputed, l) == again) {
      const Bytes bytes = held * layer.saved;
      items.push_back({s, l, bytes, layer.again_time() / static_cast<double>(bytes)});
    }
  }
}

}  // namespace

bool free_excess(const PartitionRequest& request, const std::vector<NodeLimit>& limits, Partition& partition) {
  for (const NodeLimit& limit : limits) {
    Bytes space = limit.space(partition);
    std::vector<Item> items;
    for (size_t s = 0; s < partition.stages.size() && space < 0; ++s) {
      if (limit.replicas[s] > 0) {
        add_items(request, partition, s, false, items);
      }
    }
    std::ranges::stable_sort(items, {}, [&](const Item& item) { return item.price / limit.replicas[item.stage]; });
    for (size_t i = 0; i < items.size() && space < 0; ++i) {
      PartitionStage& stage = partition.stages[items[i].stage];
      stage.recomputed.insert(std::ranges::upper_bound(stage.recomputed, items[i].layer), items[i].layer);
      stage.memory -= items[i].bytes;
      space += limit.replicas[items[i].stage] * items[i].bytes;
    }
    if (space < 0) {
      return false;
    }
  }
  measure(request, partition);
  return true;
}

void keep_layers(const PartitionRequest& request, const std::vector<NodeLimit>& limits, Partition& partition) {
  std::vector<Bytes> spaces;
  for (const NodeLimit& limit : limits) {
    spaces.push_back(limit.space(partition));
  }
  std::vector<Item> items;
  for (size_t s = 0; s < partition.stages.size(); ++s) {
    add_items(request, partition, s, true, items);
  }
  std::ranges::stable_sort(items, std::ranges::greater(), &Item::price);
  for (const Item& item : items) {
    PartitionStage& stage = partition.stages[item.stage];
    bool fits = request.cap == 0 || stage.memory + item.bytes <= request.cap;
    for (size_t k = 0; k < limits.size(); ++k) {
      fits = fits && limits[k].replicas[item.stage] * item.bytes <= spaces[k];
    }
    if (fits) {
      std::erase(stage.recomputed, item.layer);
      stage.memory += item.bytes;
      for (size_t k = 0; k < limits.size(); ++k) {
        spaces[k] -= limits[k].replicas[item.stage] * item.bytes;
      }
    }
  }
  measure(request, partition);
}

}  // namespace xrun::planner
