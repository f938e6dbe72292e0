// Tests: tests/planner/search/partition_test.cpp
#include "planner/search/total_memory.h"

#include <algorithm>
#include <cmath>

namespace xrun::planner {
namespace {

Seconds largest_of(const Partition& made) {
  return std::ranges::max(made.stages, {}, [](const PartitionStage& stage) { return stage.time(); }).time();
}

// A layer that runs again, although the remaining memory may permit keeping its values.
struct Spared {
  size_t stage = 0;
  size_t at = 0;  // index in the stage's recomputed layers
  Bytes bytes = 0;
  double value = 0;  // seconds of the step that are saved per kept byte
};

Spared dearest(const PartitionRequest& request, const Partition& made, Bytes space) {
  const Seconds largest = largest_of(made);
  Spared best;
  for (size_t s = 0; s < made.stages.size(); ++s) {
    const PartitionStage& stage = made.stages[s];
    const int held = micro_batches_held(request.pipeline, static_cast<int>(s), request.stages, request.micro_batches);
    const double times = stage.time() < largest ? 1 : request.micro_batches;
    for (size_t i = 0; i < stage.recomputed.size(); ++i) {
      const PartitionLayer& layer = request.layers[static_cast<size_t>(stage.recomputed[i])];
      const Bytes bytes = held * layer.saved;
      const bool fits = bytes <= space && (request.cap == 0 || stage.memory + bytes <= request.cap);
      const double value = bytes > 0 ? times * layer.forward / static_cast<double>(bytes) : 0;
      if (fits && value > best.value) {
        best = {s, i, bytes, value};
      }
    }
  }
  return best;
}

void spare_layers(const PartitionRequest& request, Partition& made) {
  const Seconds largest = largest_of(made);
  Bytes space = request.total - made.memory();
  for (Spared next = dearest(request, made, space); next.value > 0; next = dearest(request, made, space)) {
    PartitionStage& stage = made.stages[next.stage];
    const auto at = stage.recomputed.begin() + static_cast<std::ptrdiff_t>(next.at);
    const Seconds forward = request.layers[static_cast<size_t>(*at)].forward;
    stage.recomputed.erase(at);
    stage.backward -= forward;
    stage.memory += next.bytes;
    made.objective -= forward;
    space -= next.bytes;
  }
  made.objective -= (request.micro_batches - 1) * (largest - largest_of(made));
}

}  // namespace

Bytes Partition::memory() const {
  Bytes sum = 0;
  for (const PartitionStage& stage : stages) {
    sum += stage.memory;
  }
  return sum;
}

std::vector<Partition> partition_within_total(
    PartitionRequest request, const std::function<std::vector<Partition>(const PartitionRequest&)>& partition) {
  constexpr int kHalvings = 12;
  constexpr double kSpread = 1e6;  // ratio of the highest to the lowest price that matters
  const auto fitting = [&](double price) {
    request.seconds_per_kept_byte = price;
    std::vector<Partition> found = partition(request);
    std::erase_if(found, [&](const Partition& made) { return made.memory() > request.total; });
    return found;
  };
  // At this price every layer that keeps anything runs again.
  double high = 0;
  for (const PartitionLayer& layer : request.layers) {
    high = layer.saved > 0 ? std::max(high, 2 * layer.forward / static_cast<double>(layer.saved)) : high;
  }
  std::vector<Partition> best = fitting(0);
  if (!best.empty() || high == 0) {
    return best;
  }
  best = fitting(high);
  double low = high / kSpread;
  for (int i = 0; i < kHalvings && !best.empty(); ++i) {
    const double middle = std::sqrt(low * high);
    std::vector<Partition> found = fitting(middle);
    if (found.empty()) {
      low = middle;
    } else {
      high = middle;
      best = std::move(found);
    }
  }
  for (Partition& made : best) {
    spare_layers(request, made);
  }
  std::ranges::stable_sort(best, {}, &Partition::objective);
  return best;
}

}  // namespace xrun::planner
