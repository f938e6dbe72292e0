// Random chains of layers, and their divisions into stages, for comparisons with all possible choices.
#pragma once

#include <algorithm>
#include <functional>

#include "graph/base/random.h"
#include "planner/partition/balance.h"
#include "planner/partition/partition.h"

namespace xrun::planner {

// Calls `visit` for every way to divide n layers into `stages` stages.
inline void for_each_cuts(int n, int stages, const std::function<void(const Cuts&)>& visit) {
  Cuts cuts{0};
  const std::function<void()> extend = [&] {
    const int left = stages - static_cast<int>(cuts.size());
    if (left == 0) {
      cuts.push_back(n);
      visit(cuts);
      cuts.pop_back();
      return;
    }
    for (int at = cuts.back() + 1; at <= n - left; ++at) {
      cuts.push_back(at);
      extend();
      cuts.pop_back();
    }
  };
  extend();
}

// Returns the size of the largest stage.
inline double bottleneck(const std::vector<double>& weights, const Cuts& cuts) {
  std::vector<double> sums{0};
  for (const double weight : weights) {
    sums.push_back(sums.back() + weight);
  }
  double largest = 0;
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    largest = std::max(largest, sums[static_cast<size_t>(cuts[s + 1])] - sums[static_cast<size_t>(cuts[s])]);
  }
  return largest;
}

// A chain of 4 to 7 layers with whole numbers, under a limit on each stage.
inline PartitionRequest random_request(uint64_t seed) {
  const RandomStream stream(seed, 2);
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return static_cast<int>(stream.below(at++, n)); };
  PartitionRequest request;
  request.stages = 2 + below(3);
  const int n = std::max(request.stages, 4 + below(4));
  for (int l = 0; l < n; ++l) {
    request.layers.push_back({.forward = 1.0 + below(9),
                              .backward = 2.0 + below(18),
                              .resident = 1 + below(10),
                              .saved = 1 + below(12),
                              .incoming = l == 0 ? 0 : 1 + below(4)});
  }
  request.micro_batches = 1 + below(8);
  request.pipeline = below(2) == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB;
  request.recompute = Recompute::kAuto;
  request.cap = 10 + below(100);
  request.seconds_per_boundary_byte = 0.25 * below(3);
  for (PartitionLayer& layer : request.layers) {
    layer.inputs_again = below(4) == 0 ? 1 + below(5) : 0;
  }
  return request;
}

}  // namespace xrun::planner
