#include "planner/partition/schedule_cuts.h"

#include <gtest/gtest.h>
#include <limits>

#include "planner/schedules/simulate_schedule.h"
#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Layers whose backward pass takes from a tenth to ten times as long as the forward pass.
PartitionRequest uneven_request(uint64_t seed, int layers) {
  const RandomStream stream(seed, 8);
  uint64_t at = 0;
  const auto uniform = [&](float low, float high) { return static_cast<double>(stream.uniform(at++, low, high)); };
  PartitionRequest request{.stages = 2 + static_cast<int>(stream.below(at++, 3)),
                           .micro_batches = 1 + static_cast<int>(stream.below(at++, 8)),
                           .pipeline = stream.below(at++, 2) == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB,
                           .candidates = 6};
  for (int l = 0; l < layers; ++l) {
    const double forward = uniform(0.1F, 3);
    request.layers.push_back({.forward = forward,
                              .backward = forward * std::pow(10, uniform(-1, 1)),
                              .resident = 1 + static_cast<Bytes>(stream.below(at++, 10)),
                              .saved = 1 + static_cast<Bytes>(stream.below(at++, 12)),
                              .incoming = 1});
  }
  return request;
}

ScheduleCosts costs_of(const PartitionRequest& request, Seconds hand_over, Seconds head) {
  const bool gpipe = request.pipeline == PipelineKind::kGpipe;
  const int passes = head == 0 ? 0 : gpipe ? 1 : request.micro_batches;
  const auto makespan = [=](const Partition& partition) {
    ScheduleRequest order{.micro_batches = request.micro_batches, .head_passes = passes, .head = head};
    for (const PartitionStage& stage : partition.stages) {
      order.forward.push_back(stage.forward + hand_over);
      order.backward.push_back(stage.backward + hand_over);
    }
    return simulate(make_schedule(request.pipeline, order), order).makespan;
  };
  return {makespan, hand_over, head * passes};
}

// The least makespan over all cuts.
double exhaustive_makespan(const PartitionRequest& request, const ScheduleCosts& costs) {
  double best = kInfinity;
  for_each_cuts(static_cast<int>(request.layers.size()), request.stages, [&](const Cuts& cuts) {
    Partition made;
    for (int s = 0; s < request.stages; ++s) {
      PartitionStage stage{.begin = cuts[static_cast<size_t>(s)], .end = cuts[static_cast<size_t>(s) + 1]};
      const int held = micro_batches_held(request, s);
      if (!choose_recompute(request, held, stage).fits) {
        return;
      }
      made.stages.push_back(std::move(stage));
    }
    best = std::min(best, costs.step(made));
  });
  return best;
}

double best_makespan(const PartitionRequest& request, const ScheduleCosts& costs, bool& improved) {
  double best = kInfinity;
  for (const Partition& one : partition(request)) {
    best = std::min(best, costs.step(one));
  }
  const std::optional<Partition> faster = find_faster_cuts(request, {}, best, costs);
  improved = faster.has_value();
  return faster ? costs.step(*faster) : best;
}

TEST(ScheduleCuts, NoCutsAreMoreThanAThousandthFaster) {
  int improved = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const PartitionRequest request = uneven_request(seed, 5 + static_cast<int>(seed % 8));
    const ScheduleCosts costs = costs_of(request, seed % 3 == 0 ? 0.1 : 0, seed % 4 == 0 ? 1.5 : 0);
    bool found = false;
    EXPECT_LE(best_makespan(request, costs, found), exhaustive_makespan(request, costs) * 1.0011) << "seed " << seed;
    improved += found ? 1 : 0;
  }
  EXPECT_GT(improved, 20) << "the partition alone suffices";
}

TEST(ScheduleCuts, MemoryLimitsOfStagesHold) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PartitionRequest request = uneven_request(seed, 5 + static_cast<int>(seed % 4));
    request.recompute = Recompute::kAuto;
    request.cap = 30 + static_cast<Bytes>(seed % 60);
    const ScheduleCosts costs = costs_of(request, 0, 0);
    const double best = exhaustive_makespan(request, costs);
    bool found = false;
    const double made = best_makespan(request, costs, found);
    ASSERT_EQ(made == kInfinity, best == kInfinity) << "seed " << seed;
    if (best < kInfinity) {
      ++compared;
      EXPECT_LE(made, best * 1.0011) << "seed " << seed;
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(ScheduleCuts, PinsAndJoinedLayersHold) {
  int improved = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    PartitionRequest request = uneven_request(seed, 10);
    request.layers[4].joined = true;
    request.layers[7].pinned = request.stages - 1;
    request.last_cut = 7;
    const ScheduleCosts costs = costs_of(request, 0, 0);
    double best = kInfinity;
    for (const Partition& one : partition(request)) {
      best = std::min(best, costs.step(one));
    }
    const auto faster = find_faster_cuts(request, {}, best, costs);
    if (faster) {
      ++improved;
      for (size_t s = 1; s < faster->stages.size(); ++s) {
        EXPECT_NE(faster->stages[s].begin, 4) << "seed " << seed;
        EXPECT_LE(faster->stages[s].begin, 7) << "seed " << seed;
      }
      EXPECT_LE(faster->stages.back().begin, 7) << "seed " << seed;
    }
  }
  EXPECT_GT(improved, 5);
}

}  // namespace
}  // namespace xrun::planner
