#include "planner/partition/coarse_layers.h"

#include <algorithm>

namespace xrun::planner {

int most_layers(const PartitionRequest& request) {
  const bool chosen = request.shares_memory() || (request.cap > 0 && request.recompute == Recompute::kAuto);
  return chosen ? 256 : 2048;
}

CoarseLayers merge_layers(const PartitionRequest& request, int most) {
  CoarseLayers coarse{.request = request};
  coarse.request.layers.clear();
  coarse.request.last_cut = 0;
  const int n = static_cast<int>(request.layers.size());
  const int size = (n + most - 1) / most;
  const bool marked = request.recompute == Recompute::kChosen;
  if (marked) {
    coarse.request.recompute = Recompute::kNone;
  }
  for (int i = 0; i < n; ++i) {
    PartitionLayer layer = request.layers[static_cast<size_t>(i)];
    if (marked && layer.again) {
      layer.backward += layer.forward;
      layer.saved = 0;
    }
    auto& groups = coarse.request.layers;
    const bool fills = !groups.empty() && i - coarse.begin.back() < size && i != request.last_cut;
    const bool joins = !groups.empty() && (fills || layer.joined) && groups.back().pinned == layer.pinned;
    if (!joins) {
      coarse.begin.push_back(i);
      groups.push_back(layer);
    } else {
      PartitionLayer& group = groups.back();
      group.forward += layer.forward;
      group.backward += layer.backward;
      group.resident += layer.resident;
      group.saved += layer.saved;
    }
    if (i == request.last_cut && i > 0) {
      coarse.request.last_cut = static_cast<int>(groups.size()) - 1;
    }
  }
  coarse.begin.push_back(n);
  return coarse;
}

void refine(const PartitionRequest& request, const CoarseLayers& coarse, Partition& partition) {
  for (PartitionStage& stage : partition.stages) {
    std::vector<int> layers;
    for (const int group : stage.recomputed) {
      for (int i = coarse.begin[static_cast<size_t>(group)]; i < coarse.begin[static_cast<size_t>(group) + 1]; ++i) {
        layers.push_back(i);
      }
    }
    stage.recomputed = std::move(layers);
    stage.begin = coarse.begin[static_cast<size_t>(stage.begin)];
    stage.end = coarse.begin[static_cast<size_t>(stage.end)];
    for (int i = stage.begin; request.recompute == Recompute::kChosen && i < stage.end; ++i) {
      if (request.layers[static_cast<size_t>(i)].again) {
        stage.recomputed.push_back(i);
      }
    }
  }
}

PartitionRequest near_cuts(const PartitionRequest& request, const Partition& known, int reach) {
  PartitionRequest near = request;
  const int n = static_cast<int>(request.layers.size());
  std::vector<bool> within(request.layers.size(), false);
  for (const PartitionStage& stage : known.stages) {
    for (int l = std::max(0, stage.begin - reach); l < std::min(n, stage.begin + reach + 1) && stage.begin > 0; ++l) {
      within[static_cast<size_t>(l)] = true;
    }
  }
  for (size_t l = 1; l < within.size(); ++l) {
    near.layers[l].joined = near.layers[l].joined || !within[l];
  }
  return near;
}

}  // namespace xrun::planner
