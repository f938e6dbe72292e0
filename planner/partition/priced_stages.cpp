// Steps of `solve`: at these prices, each layer by itself runs again if that costs less than keeping its values, so the
// cost of a stage is a difference of two prefix sums. From the last stage to the first, the least cost of a stage that
// begins at a layer and of all stages after it is the minimum over the ends that the limits allow.
// Tests: tests/planner/partition/shared_limits_test.cpp
#include "planner/partition/priced_stages.h"

#include <algorithm>
#include <limits>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of times in another order differ by less than this fraction.
constexpr double kRounding = 1e-12;

}  // namespace

PricedStages::PricedStages(const PartitionRequest& request)
    : request_(request), rules_(request), layers_(static_cast<int>(request.layers.size())), times_{0}, resident_{0} {
  for (const PartitionLayer& layer : request.layers) {
    times_.push_back(times_.back() + layer.forward + layer.backward);
    resident_.push_back(resident_.back() + layer.resident);
  }
  for (int l = 0; l < layers_; ++l) {
    largest_hop_ = std::max(largest_hop_, hop(l));
  }
  for (int s = 0; s < request.stages; ++s) {
    held_.push_back(micro_batches_held(request, s));
  }
}

Seconds PricedStages::hop(int layer) const {
  return layer == 0 ? 0
                    : request_.seconds_per_boundary_byte *
                          static_cast<double>(request_.layers[static_cast<size_t>(layer)].incoming);
}

Seconds PricedStages::most(int stages, Seconds limit) const {
  return stages * (limit + largest_hop_) * (1 + kRounding);
}

double PricedStages::layer_cost(int stage, int layer) const {
  const PartitionLayer& l = request_.layers[static_cast<size_t>(layer)];
  const double kept = byte_price(stage) * static_cast<double>(held(stage) * l.saved);
  return prices_.second * (l.forward + l.backward) + byte_price(stage) * static_cast<double>(l.resident) +
         std::min(kept, prices_.second * l.again_time());
}

double PricedStages::entry_cost(int stage, int layer) const {
  const Bytes incoming = held(stage) * request_.layers[static_cast<size_t>(layer)].incoming;
  return prices_.second * hop(layer) + byte_price(stage) * static_cast<double>(incoming);
}

int PricedStages::last_end(int stage, int layer, Seconds time, Bytes memory) const {
  const auto from = static_cast<std::ptrdiff_t>(layer);
  const auto after = [&](const auto& sums, auto limit) {
    return static_cast<int>(std::upper_bound(sums.begin() + from, sums.end(), limit) - sums.begin()) - 1;
  };
  int last = rules_.last_end(stage, layer);
  last = std::min(last, after(times_, times_[static_cast<size_t>(layer)] + time * (1 + kRounding)));
  return request_.cap == 0 ? last : std::min(last, after(resident_, resident_[static_cast<size_t>(layer)] + memory));
}

double PricedStages::solve(Seconds limit, Prices prices) {
  limit_ = limit;
  prices_ = std::move(prices);
  const auto width = static_cast<size_t>(layers_) + 1;
  before_.assign(static_cast<size_t>(request_.stages), std::vector<double>(width, 0));
  end_cost_.assign(static_cast<size_t>(request_.stages), std::vector<double>(width, kInfinity));
  end_cost_.back().back() = 0;
  double cost = kInfinity;
  for (int s = request_.stages - 1; s >= 0; --s) {
    std::vector<double>& before = before_[static_cast<size_t>(s)];
    std::vector<double>& ends = end_cost_[static_cast<size_t>(s)];
    for (int l = 0; l < layers_; ++l) {
      before[static_cast<size_t>(l) + 1] = before[static_cast<size_t>(l)] + layer_cost(s, l);
    }
    for (size_t l = 0; l < width; ++l) {
      ends[l] += before[l];
    }
    for (int l = s; l < (s == 0 ? 1 : layers_); ++l) {
      if (!rules_.may_begin(s, l)) {
        continue;
      }
      const Bytes memory = request_.cap - held(s) * request_.layers[static_cast<size_t>(l)].incoming;
      const int last = last_end(s, l, limit, memory);
      if (last <= l || (request_.cap > 0 && memory < 0)) {
        continue;
      }
      const double least = *std::min_element(ends.begin() + l + 1, ends.begin() + last + 1);
      const double from = least - before[static_cast<size_t>(l)] + entry_cost(s, l);
      (s == 0 ? cost : end_cost_[static_cast<size_t>(s) - 1][static_cast<size_t>(l)]) = from;
    }
  }
  return cost;
}

double PricedStages::rest(int stage, int layer, Seconds used) const {
  const auto s = static_cast<size_t>(stage);
  const int last = last_end(stage, layer, limit_ - used, request_.cap);
  const auto& ends = end_cost_[s];
  return *std::min_element(ends.begin() + layer, ends.begin() + std::max(layer, last) + 1) -
         before_[s][static_cast<size_t>(layer)];
}

Partition PricedStages::cheapest() const {
  Partition made;
  int begin = 0;
  for (int s = 0; s < request_.stages; ++s) {
    const auto& ends = end_cost_[static_cast<size_t>(s)];
    const int last =
        last_end(s, begin, limit_, request_.cap - held(s) * request_.layers[static_cast<size_t>(begin)].incoming);
    XRUN_CHECK(last > begin, "a stage of the cheapest cuts has no layer");
    PartitionStage stage{.begin = begin};
    stage.end = static_cast<int>(std::min_element(ends.begin() + begin + 1, ends.begin() + last + 1) - ends.begin());
    for (int l = stage.begin; l < stage.end; ++l) {
      const PartitionLayer& layer = request_.layers[static_cast<size_t>(l)];
      if (prices_.second * layer.again_time() < byte_price(s) * static_cast<double>(held(s) * layer.saved)) {
        stage.recomputed.push_back(l);
      }
    }
    begin = stage.end;
    made.stages.push_back(std::move(stage));
  }
  measure(request_, made);
  return made;
}

void measure(const PartitionRequest& request, Partition& partition) {
  for (size_t s = 0; s < partition.stages.size(); ++s) {
    PartitionStage& stage = partition.stages[s];
    const int held = micro_batches_held(request, static_cast<int>(s));
    stage.forward = stage.backward = 0;
    stage.memory = held * request.layers[static_cast<size_t>(stage.begin)].incoming;
    for (int l = stage.begin; l < stage.end; ++l) {
      const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
      stage.forward += layer.forward;
      stage.backward += layer.backward;
      stage.memory += layer.resident + held * layer.saved;
    }
    for (const int l : stage.recomputed) {
      stage.backward += request.layers[static_cast<size_t>(l)].again_time();
      stage.memory -= held * request.layers[static_cast<size_t>(l)].saved;
    }
  }
  partition.objective = objective_of(request, partition);
}

}  // namespace xrun::planner
