#include "planner/partition/partition.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <queue>
#include <sstream>

#include "graph/base/random.h"
#include "planner/partition/balance.h"
#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> random_weights(uint64_t seed, int n) {
  const RandomStream stream(seed, 1);
  std::vector<double> weights;
  for (int i = 0; i < n; ++i) {
    weights.push_back(stream.uniform(static_cast<uint64_t>(i)) < 0.2F
                          ? 0.0
                          : static_cast<double>(stream.uniform(static_cast<uint64_t>(1000 + i), 0.1F, 5.0F)));
  }
  return weights;
}

TEST(Balance, EqualsTheExhaustiveOptimum) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const int n = 4 + static_cast<int>(seed % 7);
    const std::vector<double> weights = random_weights(seed, n);
    for (int stages = 1; stages <= std::min(n, 5); ++stages) {
      double best = kInfinity;
      for_each_cuts(n, stages, [&](const Cuts& cuts) { best = std::min(best, bottleneck(weights, cuts)); });
      const Cuts cuts = balance(weights, stages);
      ASSERT_EQ(cuts.size(), static_cast<size_t>(stages) + 1) << "seed " << seed;
      EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
      EXPECT_EQ(std::adjacent_find(cuts.begin(), cuts.end()), cuts.end()) << "an empty stage, seed " << seed;
      EXPECT_EQ(bottleneck(weights, cuts), best) << "seed " << seed << ", stages " << stages;
    }
  }
}

// Computes the objective of one choice of cuts with the cheapest recomputation, by trying all subsets.
double exhaustive_objective(const PartitionRequest& request, const Cuts& cuts) {
  double sum = 0;
  double largest = 0;
  for (int s = 0; s < request.stages; ++s) {
    const int begin = cuts[static_cast<size_t>(s)];
    const int end = cuts[static_cast<size_t>(s) + 1];
    const int held = micro_batches_held(request, s);
    double best = kInfinity;
    for (int subset = 0; subset < (1 << (end - begin)); ++subset) {
      double time = 0;
      Bytes memory = held * request.layers[static_cast<size_t>(begin)].incoming;
      for (int l = begin; l < end; ++l) {
        const PartitionLayer& layer = request.layers[static_cast<size_t>(l)];
        const bool again = (subset >> (l - begin) & 1) != 0;
        time += layer.forward + layer.backward + (again ? layer.again_time() : 0);
        memory += layer.resident + (again ? 0 : held * layer.saved);
      }
      if (memory <= request.cap) {
        best = std::min(best, time);
      }
    }
    largest = std::max(largest, best);
    sum += best;
    if (end < static_cast<int>(request.layers.size())) {
      sum += request.seconds_per_boundary_byte * static_cast<double>(request.layers[static_cast<size_t>(end)].incoming);
    }
  }
  return sum + (request.micro_batches - 1) * largest;
}

// No result has a cut before a layer that is joined to the one before it.
TEST(Partition, NoCutLiesBeforeAJoinedLayer) {
  int infeasible = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PartitionRequest request = random_request(seed);
    request.cap *= 4;
    const RandomStream stream(seed, 3);
    for (size_t l = 1; l < request.layers.size(); ++l) {
      request.layers[l].joined = stream.below(l, 3) == 0;
    }
    double best = kInfinity;
    for_each_cuts(static_cast<int>(request.layers.size()), request.stages, [&](const Cuts& cuts) {
      const bool legal = std::all_of(cuts.begin(), cuts.end() - 1,
                                     [&](int at) { return !request.layers[static_cast<size_t>(at)].joined; });
      best = legal ? std::min(best, exhaustive_objective(request, cuts)) : best;
    });
    const std::vector<Partition> found = partition(request);
    infeasible += best == kInfinity ? 1 : 0;
    ASSERT_EQ(found.empty(), best == kInfinity) << "seed " << seed;
    if (!found.empty()) {
      EXPECT_DOUBLE_EQ(found[0].objective, best) << "seed " << seed;
    }
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 150);
}

// The chains are so long that neighbouring layers are grouped first.
TEST(Partition, GroupsOfALongChainKeepJoinedLayersTogether) {
  PartitionRequest request;
  request.stages = 4;
  request.recompute = Recompute::kNone;
  for (int l = 0; l < 5000; ++l) {
    request.layers.push_back({.forward = 1, .backward = 2, .joined = l % 1250 > 100});
  }
  const std::vector<Partition> found = partition(request);
  ASSERT_FALSE(found.empty());
  for (const PartitionStage& stage : found[0].stages) {
    EXPECT_FALSE(request.layers[static_cast<size_t>(stage.begin)].joined) << stage.begin;
    EXPECT_NEAR(stage.end - stage.begin, 1250, 110);
  }
}

TEST(Partition, EqualsTheExhaustiveOptimumWithMemoryAndRecomputation) {
  int infeasible = 0;
  int recomputing = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const PartitionRequest request = random_request(seed);
    double best = kInfinity;
    for_each_cuts(static_cast<int>(request.layers.size()), request.stages,
                  [&](const Cuts& cuts) { best = std::min(best, exhaustive_objective(request, cuts)); });
    const std::vector<Partition> found = partition(request);
    if (best == kInfinity) {
      ++infeasible;
      EXPECT_TRUE(found.empty()) << "seed " << seed;
      continue;
    }
    ASSERT_FALSE(found.empty()) << "seed " << seed;
    EXPECT_DOUBLE_EQ(found[0].objective, best) << "seed " << seed;
    Cuts cuts{0};
    bool again = false;
    for (const PartitionStage& stage : found[0].stages) {
      EXPECT_LE(stage.memory, request.cap) << "seed " << seed;
      cuts.push_back(stage.end);
      again = again || !stage.recomputed.empty();
    }
    recomputing += again ? 1 : 0;
    EXPECT_DOUBLE_EQ(exhaustive_objective(request, cuts), best) << "seed " << seed;
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_GT(recomputing, 30);
  EXPECT_LT(infeasible, 600);
}

// Without a limit of memory, nothing is recomputed.
double exhaustive_optimum_without_limit(const PartitionRequest& request) {
  double best = kInfinity;
  for_each_cuts(static_cast<int>(request.layers.size()), request.stages, [&](const Cuts& cuts) {
    double sum = 0;
    double largest = 0;
    for (size_t s = 0; s + 1 < cuts.size(); ++s) {
      double time = 0;
      for (int l = cuts[s]; l < cuts[s + 1]; ++l) {
        time += request.layers[static_cast<size_t>(l)].forward + request.layers[static_cast<size_t>(l)].backward;
      }
      largest = std::max(largest, time);
      sum += time;
      if (s > 0) {
        sum += request.seconds_per_boundary_byte *
               static_cast<double>(request.layers[static_cast<size_t>(cuts[s])].incoming);
      }
    }
    best = std::min(best, sum + (request.micro_batches - 1) * largest);
  });
  return best;
}

// Two large layers have two tiny ones between them. The even cut has the smallest largest stage but a large boundary.
// The cuts next to it are better, although their largest stage is a little larger.
TEST(Partition, ManyLayersAreCutAsTheExhaustiveOptimum) {
  PartitionRequest request;
  request.layers.assign(60, {.incoming = 10});
  request.layers[20].forward = request.layers[30].forward = 1;
  request.layers[24].forward = request.layers[26].forward = 4e-4;
  request.layers[25].incoming = request.layers[26].incoming = 100;
  request.stages = 2;
  request.micro_batches = 4;
  request.seconds_per_boundary_byte = 0.01;
  request.cap = 0;
  EXPECT_DOUBLE_EQ(partition(request).at(0).objective, exhaustive_optimum_without_limit(request));
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomStream stream(seed, 3);
    request.stages = 2 + static_cast<int>(seed % 2);
    for (uint64_t l = 0; l < 60; ++l) {
      const bool large = stream.uniform(3 * l) < 0.1F;
      request.layers[l].forward = large ? 1 + 1e-3 * static_cast<double>(stream.uniform(3 * l + 1)) : 1e-4;
      request.layers[l].incoming = static_cast<Bytes>(stream.below(3 * l + 2, 100));
    }
    const Partition found = partition(request).at(0);
    EXPECT_DOUBLE_EQ(found.objective, exhaustive_optimum_without_limit(request)) << "seed " << seed;
    EXPECT_TRUE(found.proven());
  }
}

TEST(Partition, NoCutLiesAfterTheLastLegalPosition) {
  PartitionRequest request;
  for (int l = 0; l < 10; ++l) {
    request.layers.push_back({.forward = 1, .backward = 2});
  }
  request.stages = 2;
  request.last_cut = 3;
  const auto found = partition(request);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].stages[0].end, 3);
  request.last_cut = 1;
  request.stages = 3;
  EXPECT_TRUE(partition(request).empty());
}

// Chains that are too long for the tables are cut between groups of neighbours, and still respect all requirements on
// layers.
TEST(Partition, CutsVeryLongChainsNearTheOptimum) {
  const RandomStream random(11, 1);
  PartitionRequest request;
  double sum = 0;
  for (uint64_t l = 0; l < 9001; ++l) {
    const double forward = 1 + random.uniform(l);
    request.layers.push_back({.forward = forward, .backward = 2 * forward, .saved = 8, .again = l % 3 == 0});
    sum += 3 * forward;
  }
  request.layers[7777].pinned = 3;
  request.stages = 4;
  request.micro_batches = 8;
  request.last_cut = 7001;
  const auto found = partition(request);
  ASSERT_FALSE(found.empty());
  const auto& stages = found[0].stages;
  EXPECT_EQ(stages[0].begin, 0);
  EXPECT_EQ(stages[3].end, 9001);
  for (size_t s = 1; s < stages.size(); ++s) {
    EXPECT_EQ(stages[s].begin, stages[s - 1].end);
    EXPECT_LE(stages[s].begin, 7001);
  }
  EXPECT_LE(stages[3].begin, 7777);
  request.layers[7777].pinned = -1;
  request.last_cut = 0;
  const auto free = partition(request);
  ASSERT_FALSE(free.empty());
  EXPECT_LT(free[0].objective, 1.002 * (sum + 7 * sum / 4));
  request.recompute = Recompute::kChosen;
  const auto chosen = partition(request);
  for (const PartitionStage& stage : chosen.at(0).stages) {
    int marked = 0;
    for (int l = stage.begin; l < stage.end; ++l) {
      marked += l % 3 == 0 ? 1 : 0;
    }
    EXPECT_EQ(std::ssize(stage.recomputed), marked);
    EXPECT_GE(stage.recomputed.front(), stage.begin);
    EXPECT_LT(stage.recomputed.back(), stage.end);
  }
  request.recompute = Recompute::kAuto;
  request.cap = 8 * 9001 / 4 * 5;  // 8 micro-batches; three of eight layers are recomputed
  const auto fitting = partition(request);
  ASSERT_FALSE(fitting.empty());
  for (const PartitionStage& stage : fitting[0].stages) {
    EXPECT_LE(stage.memory, request.cap);
    EXPECT_FALSE(stage.recomputed.empty());
  }
}

TEST(Partition, ReturnsSeveralGoodCutsForTheSimulation) {
  PartitionRequest request;
  for (const double f : {3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0}) {
    request.layers.push_back({.forward = f, .backward = 2 * f});
  }
  request.stages = 3;
  request.micro_batches = 4;
  request.candidates = 5;
  const auto found = partition(request);
  ASSERT_GT(found.size(), 1U);
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(found[i - 1].objective, found[i].objective);
    EXPECT_FALSE(found[i].stages[0].end == found[0].stages[0].end && found[i].stages[1].end == found[0].stages[1].end);
  }
}

// Reads a profile and returns f + b of its nodes in a topological order (smallest node number first).
std::vector<double> read_profile(const std::filesystem::path& path) {
  std::map<int, double> cost;
  std::map<int, std::vector<int>> next;
  std::map<int, int> waits;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto number = [&](size_t at) { return std::stoi(line.substr(line.find("node", at) + 4)); };
    const auto value = [&](const std::string& key) { return std::stod(line.substr(line.find(key) + key.size())); };
    if (line.empty()) {
      continue;
    }
    const size_t arrow = line.find(" -- ");
    if (line[0] == '\t') {
      next[number(0)].push_back(number(arrow));
      ++waits[number(arrow)];
    } else {
      const bool input = line.find(" -- Input") != std::string::npos;  // reading the batch is not a layer
      cost[number(0)] = input ? -1 : value("forward_compute_time=") + value("backward_compute_time=");
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (const auto& [node, unused] : cost) {
    if (waits[node] == 0) {
      ready.push(node);
    }
  }
  std::vector<double> weights;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    if (cost[node] >= 0) {
      weights.push_back(cost[node]);
    }
    for (const int other : next[node]) {
      if (--waits[other] == 0) {
        ready.push(other);
      }
    }
  }
  return weights;
}

TEST(Balance, IsOptimalOnTheProfilesOfRealNetworks) {
  const char* set = std::getenv("XRUN_SHARED_DIR");
  const std::filesystem::path folder =
      std::filesystem::path(set != nullptr ? set : XRUN_SOURCE_DIR "/../shared/data") / "pipedream-profiles";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no " << folder;
  }
  const std::map<std::string, size_t> sizes{{"resnet50", 176},     {"resnet101", 346}, {"densenet121", 428},
                                            {"inception_v3", 325}, {"alexnet", 22},    {"nasnetalarge", 1250}};
  for (const auto& [name, size] : sizes) {
    const std::vector<double> weights = read_profile(folder / (name + ".txt"));
    EXPECT_EQ(weights.size(), size) << name;
    for (const int stages : {2, 4, 8}) {
      const double optimum = bottleneck(weights, balance(weights, stages));
      // Proves that no cuts are better: filled greedily, the layers do not fit under a smaller bound.
      double total = 0;
      int used = 1;
      double stage = 0;
      const double below = optimum * (1 - 1e-9);
      for (const double weight : weights) {
        total += weight;
        if (weight > below) {
          used = stages + 1;  // this layer alone exceeds the bound
        }
        if (stage + weight > below) {
          ++used;
          stage = 0;
        }
        stage += weight;
      }
      EXPECT_GT(used, stages) << name << ", " << stages;
      EXPECT_GE(optimum, total / stages);
    }
  }
}

}  // namespace
}  // namespace xrun::planner
