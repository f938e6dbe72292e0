#include "planner/profiles/graph_cuts.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <map>

#include "graph/base/random.h"
#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

LayerProfile random_profile(uint64_t seed, int layers) {
  const RandomStream stream(seed, 9);
  uint64_t at = 0;
  LayerProfile profile;
  for (int l = 0; l < layers; ++l) {
    const bool free = stream.uniform(at++) < 0.15F;
    profile.layers.push_back({.name = "node" + std::to_string((l * 7) % layers + 1),
                              .kind = "Layer",
                              .forward = free ? 0 : 1.0 + static_cast<double>(stream.below(at++, 20))});
    for (int read = 0; read < l; ++read) {
      if (stream.uniform(at++) < 0.3F) {
        profile.edges.emplace_back(read, l);
      }
    }
  }
  return profile;
}

// The least time of the largest stage over all stages of all layers, in which no stage reads a later one.
double exhaustive_largest(const LayerProfile& profile, int stages) {
  const auto layers = static_cast<int>(profile.layers.size());
  double best = std::numeric_limits<double>::infinity();
  int64_t choices = 1;
  for (int l = 0; l < layers; ++l) {
    choices *= stages;
  }
  for (int64_t choice = 0; choice < choices; ++choice) {
    std::vector<int> stage_of;
    int64_t left = choice;
    for (int l = 0; l < layers; ++l, left /= stages) {
      stage_of.push_back(static_cast<int>(left % stages));
    }
    const bool legal = std::ranges::all_of(profile.edges, [&](const auto& edge) {
      return stage_of[static_cast<size_t>(edge.first)] <= stage_of[static_cast<size_t>(edge.second)];
    });
    std::vector<double> times(static_cast<size_t>(stages), 0);
    for (int l = 0; l < layers; ++l) {
      times[static_cast<size_t>(stage_of[static_cast<size_t>(l)])] += profile.layers[static_cast<size_t>(l)].time();
    }
    best = legal ? std::min(best, *std::ranges::max_element(times)) : best;
  }
  return best;
}

// Checks that every layer is in one stage, and that no stage is empty or reads a later one.
void expect_legal(const LayerProfile& profile, const GraphCuts& cuts, int stages) {
  ASSERT_EQ(std::ssize(cuts.stages), stages);
  std::vector<int> stage_of(profile.layers.size(), -1);
  double largest = 0;
  for (int s = 0; s < stages; ++s) {
    double time = 0;
    EXPECT_FALSE(cuts.stages[static_cast<size_t>(s)].empty());
    for (const int layer : cuts.stages[static_cast<size_t>(s)]) {
      EXPECT_EQ(stage_of[static_cast<size_t>(layer)], -1) << "a layer is in two stages";
      stage_of[static_cast<size_t>(layer)] = s;
      time += profile.layers[static_cast<size_t>(layer)].time();
    }
    largest = std::max(largest, time);
  }
  EXPECT_DOUBLE_EQ(largest, cuts.largest);
  for (const auto& [from, to] : profile.edges) {
    EXPECT_LE(stage_of[static_cast<size_t>(from)], stage_of[static_cast<size_t>(to)]);
    EXPECT_GE(stage_of[static_cast<size_t>(from)], 0);
  }
  EXPECT_LE(cuts.bound, cuts.largest * (1 + 1e-9));
}

TEST(GraphCuts, AreTheBestOnesOfSmallGraphs) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const LayerProfile profile = random_profile(seed, 4 + static_cast<int>(seed % 5));
    const int stages = 1 + static_cast<int>(seed % 4);
    const GraphCuts cuts = cut_graph(profile, stages);
    expect_legal(profile, cuts, stages);
    const double best = exhaustive_largest(profile, stages);
    EXPECT_DOUBLE_EQ(cuts.largest, best) << "seed " << seed;
    EXPECT_LE(cuts.bound, best * (1 + 1e-9)) << "seed " << seed;
    EXPECT_GE(cuts.bound, best * (1 - 1e-4)) << "seed " << seed;
  }
}

TEST(GraphCuts, EachLayerMayBeAStage) {
  const LayerProfile profile = random_profile(3, 9);
  expect_legal(profile, cut_graph(profile, 9), 9);
}

std::filesystem::path profiles() {
  const char* set = std::getenv("XRUN_SHARED_DIR");
  return std::filesystem::path(set != nullptr ? set : XRUN_SOURCE_DIR "/../shared/data") / "pipedream-profiles";
}

// The time of the largest stage with the best cuts of an order that `rank` decides.
template <typename Rank>
double largest_in_order(const LayerProfile& profile, int stages, const Rank& rank) {
  std::vector<int> waits(profile.layers.size(), 0);
  std::vector<std::vector<int>> readers(profile.layers.size());
  for (const auto& [from, to] : profile.edges) {
    readers[static_cast<size_t>(from)].push_back(to);
    ++waits[static_cast<size_t>(to)];
  }
  std::multimap<double, int> ready;
  for (size_t l = 0; l < waits.size(); ++l) {
    if (waits[l] == 0) {
      ready.emplace(rank(static_cast<int>(l)), static_cast<int>(l));
    }
  }
  std::vector<double> times;
  while (!ready.empty()) {
    const int layer = ready.begin()->second;
    ready.erase(ready.begin());
    times.push_back(profile.layers[static_cast<size_t>(layer)].time());
    for (const int reader : readers[static_cast<size_t>(layer)]) {
      if (--waits[static_cast<size_t>(reader)] == 0) {
        ready.emplace(rank(reader), reader);
      }
    }
  }
  return bottleneck(times, balance(times, stages));
}

TEST(GraphCuts, RealNetworksAreCutAtLeastAsWellAsInAnyOrder) {
  if (!std::filesystem::exists(profiles())) {
    GTEST_SKIP() << "no " << profiles();
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(profiles())) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".txt") {
      continue;
    }
    ++files;
    std::ifstream in(entry.path());
    const auto profile = parse_profile(std::string(std::istreambuf_iterator<char>(in), {}), name);
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    for (const int stages : {2, 4, 8}) {
      const GraphCuts cuts = cut_graph(*profile, stages);
      expect_legal(*profile, cuts, stages);
      double best = largest_in_order(*profile, stages, [](int layer) { return layer; });
      for (uint64_t seed = 1; seed <= 1000; ++seed) {
        const RandomStream stream(seed, 10);
        best = std::min(best, largest_in_order(*profile, stages, [&](int layer) {
                          return static_cast<double>(stream.uniform(static_cast<uint64_t>(layer)));
                        }));
      }
      EXPECT_LE(cuts.largest, best * (1 + 1e-9)) << name << ", " << stages << " stages";
      RecordProperty(name + "." + std::to_string(stages), std::to_string(cuts.largest * 1e3));
      if (name == "resnet50" && stages == 8) {
        EXPECT_LE(cuts.largest, 56.69e-3) << "the best cuts of usual orders have a stage of 58.45 ms";
      }
    }
  }
  EXPECT_EQ(files, 9);
}

}  // namespace
}  // namespace xrun::planner
