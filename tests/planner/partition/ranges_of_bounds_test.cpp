// Chains of more than 48 layers, whose bounds on the largest stage are tried by ranges, against the search that tries
// every bound.
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "planner/partition/stage_times.h"
#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 49 to 64 layers. A few have times from 0.1 to 1 seconds, the others take microseconds.
PartitionRequest almost_free_request(uint64_t seed) {
  const RandomStream stream(seed, 11);
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return static_cast<int>(stream.below(at++, n)); };
  PartitionRequest request{.stages = 2 + below(3),
                           .micro_batches = 1 + below(8),
                           .pipeline = below(2) == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB,
                           .seconds_per_boundary_byte = 1e-4 * below(3)};
  const int layers = 49 + below(16);
  for (int l = 0; l < layers; ++l) {
    const double unit = below(8) == 0 ? 0.1 : 1e-6;
    request.layers.push_back({.forward = unit * static_cast<double>(stream.uniform(at++, 1, 10)),
                              .backward = unit * static_cast<double>(stream.uniform(at++, 1, 20)),
                              .resident = 1 + below(20),
                              .saved = 1 + below(12),
                              .incoming = 1 + below(100)});
  }
  return request;
}

// The times of all stages that fit.
std::set<Seconds> distinct_times(const PartitionRequest& request, const StageTimes& table) {
  const auto n = static_cast<int>(request.layers.size());
  std::set<Seconds> times;
  for (int s = 0; s < request.stages; ++s) {
    for (int begin = 0; begin < n; ++begin) {
      for (int end = begin + 1; end <= n && table.time(s, begin, end) < kInfinity; ++end) {
        times.insert(table.time(s, begin, end));
      }
    }
  }
  return times;
}

// The objective of the best cuts: for each bound on the largest stage, the least sum of stage times and hops.
double least_objective_over_all_bounds(const PartitionRequest& request) {
  const StageTimes table(request);
  const auto n = static_cast<int>(request.layers.size());
  double best = kInfinity;
  for (const Seconds bound : distinct_times(request, table)) {
    std::vector<double> sums(static_cast<size_t>(n) + 1, kInfinity);
    sums[0] = 0;
    for (int s = 0; s < request.stages; ++s) {
      std::vector<double> next(sums.size(), kInfinity);
      for (int begin = s; begin < n && (s > 0 || begin == 0); ++begin) {
        const double hop = s == 0 ? 0
                                  : request.seconds_per_boundary_byte *
                                        static_cast<double>(request.layers[static_cast<size_t>(begin)].incoming);
        const double before = sums[static_cast<size_t>(begin)] + hop;
        for (int end = begin + 1; end <= n && table.time(s, begin, end) <= bound; ++end) {
          next[static_cast<size_t>(end)] = std::min(next[static_cast<size_t>(end)], before + table.time(s, begin, end));
        }
      }
      sums = std::move(next);
    }
    best = std::min(best, sums.back() + (request.micro_batches - 1) * bound);
    if (sums.back() < kInfinity && (request.micro_batches - 1) * bound > best) {
      break;  // larger bounds cost more
    }
  }
  return best;
}

TEST(RangesOfBounds, TheResultEqualsTheRunOverAllBounds) {
  int limited = 0;
  int recomputing = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PartitionRequest request = almost_free_request(seed);
    const Partition kept = partition(request).at(0);
    EXPECT_NEAR(kept.objective, least_objective_over_all_bounds(request), 1e-10 * kept.objective) << "seed " << seed;
    if (seed % 4 > 0) {
      continue;
    }
    request.recompute = Recompute::kAuto;
    request.cap = std::ranges::max(kept.stages, {}, &PartitionStage::memory).memory * 3 / 4;
    const std::vector<Partition> found = partition(request);
    const double least = least_objective_over_all_bounds(request);
    ASSERT_EQ(found.empty(), least == kInfinity) << "seed " << seed;
    if (!found.empty()) {
      EXPECT_NEAR(found[0].objective, least, 1e-10 * least) << "seed " << seed;
      ++limited;
      recomputing += std::ranges::any_of(found[0].stages, [](const auto& s) { return !s.recomputed.empty(); }) ? 1 : 0;
    }
  }
  EXPECT_GT(limited, 20);
  EXPECT_GT(recomputing, 5);
}

}  // namespace
}  // namespace xrun::planner
