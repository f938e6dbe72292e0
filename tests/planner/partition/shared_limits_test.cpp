#include "planner/partition/shared_limits.h"

#include <gtest/gtest.h>
#include <limits>

#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Computes the objective of the best cuts and the best set of recomputed layers over all stages together.
double exhaustive_objective_within_limits(const PartitionRequest& request) {
  double best = kInfinity;
  const auto n = static_cast<int>(request.layers.size());
  for_each_cuts(n, request.stages, [&](const Cuts& cuts) {
    for (int subset = 0; subset < (1 << n); ++subset) {
      double sum = 0;
      double largest = 0;
      Bytes memory = 0;
      std::vector<Bytes> nodes(request.nodes.size(), 0);
      bool fits = true;
      for (int s = 0; s < request.stages; ++s) {
        const int begin = cuts[static_cast<size_t>(s)];
        const int held = micro_batches_held(request, s);
        const Bytes incoming = request.layers[static_cast<size_t>(begin)].incoming;
        double time = 0;
        Bytes own = held * incoming;
        for (int l = begin; l < cuts[static_cast<size_t>(s) + 1]; ++l) {
          const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
          const bool again = (subset >> l & 1) != 0;
          time += layer.forward + layer.backward + (again ? layer.again_time() : 0);
          own += layer.resident + (again ? 0 : held * layer.saved);
        }
        fits = fits && (request.cap == 0 || own <= request.cap);
        memory += own;
        for (size_t k = 0; k < nodes.size(); ++k) {
          nodes[k] += request.nodes[k].replicas[static_cast<size_t>(s)] * own;
        }
        sum += time + (begin > 0 ? request.seconds_per_boundary_byte * static_cast<double>(incoming) : 0);
        largest = std::max(largest, time);
      }
      for (size_t k = 0; k < nodes.size(); ++k) {
        fits = fits && nodes[k] <= request.nodes[k].limit;
      }
      if (fits && (request.total == 0 || memory <= request.total)) {
        best = std::min(best, sum + (request.micro_batches - 1) * largest);
      }
    }
  });
  return best;
}

// The first stage has all the weights and nothing that it could free. A limit on each stage could only move the cut.
TEST(SharedLimits, ALimitOnTheTotalIsMetByStagesThatCanFreeMemory) {
  PartitionRequest request;
  request.layers = {{.forward = 4, .backward = 8, .resident = 100},
                    {.forward = 1, .backward = 2, .saved = 10},
                    {.forward = 2, .backward = 4, .saved = 10},
                    {.forward = 1, .backward = 2, .saved = 10}};
  request.stages = 2;
  request.micro_batches = 2;
  request.recompute = Recompute::kAuto;
  request.total = 100 + 2 * 20;
  const Partition found = partition(request).at(0);
  EXPECT_EQ(found.stages[0].end, 1);
  EXPECT_EQ(found.memory(), request.total);
  EXPECT_EQ(found.stages[1].recomputed.size(), 1U);
  EXPECT_NE(found.stages[1].recomputed[0], 2) << "not the dearest";
  EXPECT_DOUBLE_EQ(found.objective, 12 + 13 + 13);
  request.total = 99;
  EXPECT_TRUE(partition(request).empty());
}

TEST(SharedLimits, TheObjectiveWithinATotalIsTheExhaustiveOptimum) {
  int within = 0;
  int refused = 0;
  int capped = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    PartitionRequest request = random_request(seed);
    const RandomStream stream(seed, 5);
    const Bytes cap = request.cap;
    request.cap = 0;
    const Partition free = partition(request).at(0);
    request.recompute = Recompute::kAll;
    const Partition all = partition(request).at(0);
    request.recompute = Recompute::kAuto;
    // From less than all layers need if they run again to nearly what they need if none does.
    const double share = static_cast<double>(stream.uniform(1)) * 1.2 - 0.2;
    request.total = std::max<Bytes>(
        1, all.memory() + static_cast<Bytes>(share * static_cast<double>(free.memory() - all.memory())));
    request.cap = stream.below(2, 4) == 0 ? cap : 0;
    capped += request.cap > 0 ? 1 : 0;
    const double best = exhaustive_objective_within_limits(request);
    const std::vector<Partition> found = partition(request);
    ASSERT_EQ(found.empty(), best == kInfinity) << "seed " << seed;
    refused += found.empty() ? 1 : 0;
    if (!found.empty()) {
      ++within;
      EXPECT_LE(found[0].memory(), request.total) << "seed " << seed;
      EXPECT_DOUBLE_EQ(found[0].objective, best) << "seed " << seed;
      EXPECT_TRUE(found[0].proven()) << "seed " << seed;
      for (const PartitionStage& stage : found[0].stages) {
        EXPECT_TRUE(request.cap == 0 || stage.memory <= request.cap) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(within, 600);
  EXPECT_GT(refused, 50);
  EXPECT_GT(capped, 150);
}

// Sets the nodes of a cluster whose devices have the stages of all replicas in turn. Each node has its own limit, from
// less than its stages need if all layers run again to more than they need if none does.
void add_nodes(uint64_t seed, PartitionRequest& request) {
  const RandomStream stream(seed, 9);
  request.cap = 0;
  const Partition kept = partition(request).at(0);
  request.recompute = Recompute::kAll;
  const Partition again = partition(request).at(0);
  request.recompute = Recompute::kAuto;
  const int devices = request.stages * (1 + static_cast<int>(stream.below(0, 3)));
  const int of_node = 1 + static_cast<int>(stream.below(1, 5));
  for (int device = 0; device < devices; ++device) {
    if (device % of_node == 0) {
      request.nodes.push_back({.replicas = std::vector<int>(static_cast<size_t>(request.stages), 0)});
    }
    ++request.nodes.back().replicas[static_cast<size_t>(device % request.stages)];
  }
  for (size_t k = 0; k < request.nodes.size(); ++k) {
    const double share = static_cast<double>(stream.uniform(2 + k)) * 1.4 - 0.2;
    const Bytes most = -request.nodes[k].space(kept);
    const Bytes least = -request.nodes[k].space(again);
    request.nodes[k].limit = least + static_cast<Bytes>(share * static_cast<double>(most - least));
  }
}

TEST(SharedLimits, TheObjectiveWithinTheLimitsOfNodesIsTheExhaustiveOptimum) {
  int within = 0;
  int refused = 0;
  int split = 0;  // a node has the last stage of one replica and the first stage of the next one
  int several = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    PartitionRequest request = random_request(seed);
    const Bytes cap = request.cap;
    add_nodes(seed, request);
    const RandomStream stream(seed, 10);
    request.cap = stream.below(0, 4) == 0 ? cap : 0;
    request.total = stream.below(1, 4) == 0 ? 2 * cap : 0;
    const double best = exhaustive_objective_within_limits(request);
    const std::vector<Partition> found = partition(request);
    ASSERT_EQ(found.empty(), best == kInfinity) << "seed " << seed;
    refused += found.empty() ? 1 : 0;
    several += shared_limits(request).size() > 1 ? 1 : 0;
    for (const NodeLimit& node : shared_limits(request)) {
      const bool ends = node.replicas.front() > 0 && node.replicas.back() > 0;
      split += ends && std::ranges::count(node.replicas, 0) > 0 ? 1 : 0;
    }
    if (!found.empty()) {
      ++within;
      for (const NodeLimit& node : request.nodes) {
        EXPECT_GE(node.space(found[0]), 0) << "seed " << seed;
      }
      EXPECT_DOUBLE_EQ(found[0].objective, best) << "seed " << seed;
      EXPECT_TRUE(found[0].proven()) << "seed " << seed;
    }
  }
  EXPECT_GT(within, 400);
  EXPECT_GT(refused, 50);
  EXPECT_GT(several, 300);
  EXPECT_GT(split, 50);
}

// Two nodes with two stages each: the first node may not use memory that the second one leaves.
TEST(SharedLimits, ANodeCannotUseTheMemoryOfAnother) {
  PartitionRequest request{.stages = 4, .micro_batches = 4, .recompute = Recompute::kAuto};
  for (int l = 0; l < 4; ++l) {
    request.layers.push_back({.forward = 1, .backward = 2, .resident = l < 2 ? 100 : 10, .saved = 10});
  }
  request.nodes = {{.limit = 250, .replicas = {1, 1, 0, 0}}, {.limit = 250, .replicas = {0, 0, 1, 1}}};
  const Partition found = partition(request).at(0);
  EXPECT_EQ(found.stages[0].recomputed.size() + found.stages[1].recomputed.size(), 1U);
  EXPECT_TRUE(found.stages[2].recomputed.empty());
  EXPECT_TRUE(found.stages[3].recomputed.empty());
  request.nodes[0].limit = 199;
  EXPECT_TRUE(partition(request).empty());
}

// Pins, joined layers and the last cut hold under a limit on the total as they do without it.
TEST(SharedLimits, RequirementsOnCutsHold) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PartitionRequest request = random_request(seed);
    const RandomStream stream(seed, 6);
    const auto n = static_cast<int>(request.layers.size());
    request.cap = 0;
    request.total = 1'000'000;
    request.layers[stream.below(1, request.layers.size())].pinned = static_cast<int>(stream.below(2, 2));
    request.layers[1 + stream.below(3, request.layers.size() - 1)].joined = true;
    request.last_cut = std::min(n - 1, request.stages - 1 + static_cast<int>(stream.below(4, 3)));
    const std::vector<Partition> within = partition(request);
    request.total = 0;
    const std::vector<Partition> free = partition(request);
    ASSERT_EQ(within.empty(), free.empty()) << "seed " << seed;
    if (!free.empty()) {
      ++compared;
      EXPECT_DOUBLE_EQ(within[0].objective, free[0].objective) << "seed " << seed;
    }
  }
  EXPECT_GT(compared, 50);
}

// 120 layers, half of which are almost free.
PartitionRequest long_request(uint64_t seed, int stages) {
  const RandomStream stream(seed, 7);
  PartitionRequest request{.stages = stages,
                           .micro_batches = 1 << (seed % 5),
                           .pipeline = seed % 2 == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB,
                           .recompute = Recompute::kAuto};
  for (uint64_t l = 0; l < 120; ++l) {
    const double forward = stream.uniform(4 * l) < 0.5F ? 1e-3 : static_cast<double>(stream.uniform(4 * l + 1));
    request.layers.push_back({.forward = forward,
                              .backward = 2 * forward,
                              .resident = static_cast<Bytes>(stream.below(4 * l + 2, 1000)),
                              .saved = static_cast<Bytes>(1 + stream.below(4 * l + 3, 5000)),
                              .incoming = 100});
  }
  return request;
}

// Long chains on two to four nodes with two devices each.
TEST(SharedLimits, LongChainsOnSeveralNodesAreNearTheirBounds) {
  int proven = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PartitionRequest request = long_request(seed, 4 + 2 * static_cast<int>(seed % 3));
    const Partition kept = partition(request).at(0);
    for (int s = 0; s < request.stages; s += 2) {
      NodeLimit node{.replicas = std::vector<int>(static_cast<size_t>(request.stages), 0)};
      node.replicas[static_cast<size_t>(s)] = node.replicas[static_cast<size_t>(s) + 1] = 1;
      node.limit = kept.memory() / request.stages;
      request.nodes.push_back(std::move(node));
    }
    const std::vector<Partition> found = partition(request);
    ASSERT_FALSE(found.empty()) << "seed " << seed;
    for (const NodeLimit& node : request.nodes) {
      EXPECT_GE(node.space(found[0]), 0) << "seed " << seed;
    }
    EXPECT_LE(found[0].objective, 1.01 * found[0].bound) << "seed " << seed;
    proven += found[0].proven() ? 1 : 0;
  }
  EXPECT_GE(proven, 15);
}

// Chains as long as those of real networks: most results are proven, and all are near their bounds.
TEST(SharedLimits, LongChainsAreProven) {
  int proven = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PartitionRequest request = long_request(seed, 2 + static_cast<int>(seed % 7));
    Bytes kept = 0;
    for (const PartitionLayer& layer : request.layers) {
      kept += layer.resident + request.micro_batches * layer.saved;
    }
    request.total = kept / 2;
    const std::vector<Partition> found = partition(request);
    ASSERT_FALSE(found.empty()) << "seed " << seed;
    EXPECT_LE(found[0].memory(), request.total);
    EXPECT_GT(found[0].bound, 0);
    EXPECT_LE(found[0].objective, 1.01 * found[0].bound) << "seed " << seed;
    proven += found[0].proven() ? 1 : 0;
  }
  EXPECT_GE(proven, 15);
}

}  // namespace
}  // namespace xrun::planner
