#include "planner/search/bound.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

#include "planner/schedules/simulate_schedule.h"
#include "planner/search/search.h"
#include "tests/planner/partition/partition_cases.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  BoundChain chain;
  BoundSetting setting;
  Seconds hop = 0;
};

enum class Pipelines { kPlain, kOthers };  // GPipe and 1F1B; 1F1B with a longer warm-up and the other ones

// Sets the pipeline, and stages for it of which each has a layer.
template <typename Below>
void draw_pipeline(Pipelines pipelines, int layers, const Below& below, BoundSetting& setting) {
  constexpr PipelineKind kOthers[] = {PipelineKind::kOneFOneB, PipelineKind::kInterleaved, PipelineKind::kZbV,
                                      PipelineKind::kZeroBubble};
  const bool plain = pipelines == Pipelines::kPlain;
  setting.pipeline = plain ? (below(2) == 0 ? PipelineKind::kGpipe : PipelineKind::kOneFOneB) : kOthers[below(4)];
  setting.warm_up = !plain && setting.pipeline == PipelineKind::kOneFOneB ? 1 + below(3) : 0;
  const int wanted = setting.pipeline == PipelineKind::kInterleaved ? 2 + below(2)
                     : setting.pipeline == PipelineKind::kZbV       ? 2
                                                                    : 1;
  const int chunks = std::min(wanted, layers);
  setting.ranks = 1 + below(static_cast<uint64_t>(std::min(4, layers / chunks)));
  setting.stages = setting.ranks * chunks;
  for (setting.micro_batches = 1 + below(10);
       !permits(setting.pipeline, setting.ranks, chunks, setting.micro_batches);) {
    --setting.micro_batches;
  }
}

// A chain in which each layer reads the one before it; `skips`: and some of them an earlier one, or that one alone.
Case random_case(uint64_t seed, bool skips, Pipelines pipelines) {
  const RandomStream stream(seed, 51);
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return static_cast<int>(stream.below(at++, n)); };
  const auto uniform = [&](float low, float high) { return static_cast<double>(stream.uniform(at++, low, high)); };
  Case made;
  const int layers = 2 + below(7);
  BoundSetting& setting = made.setting;
  draw_pipeline(pipelines, layers, below, setting);
  setting.forward = 1 + below(2);
  setting.backward = setting.forward;
  setting.hand_over = below(2) * 0.05;
  const bool has_head = below(3) == 0;
  const bool one_pass = setting.pipeline != PipelineKind::kOneFOneB && below(4) > 0;
  setting.head_passes = !has_head ? 0 : one_pass ? 1 : setting.micro_batches;
  setting.head.assign(static_cast<size_t>(setting.stages), has_head ? uniform(0.1F, 4) : 0);
  setting.head_update.assign(static_cast<size_t>(setting.stages), 0);
  made.hop = below(3) == 0 ? 0.2 : 0;
  BoundChain& chain = made.chain;
  chain.last_cut = layers - 1;
  for (int l = 0; l < layers; ++l) {
    const double forward = below(4) == 0 ? 0.01 : uniform(0.1F, 3);
    chain.forward.times.push_back(forward);
    chain.backward.times.push_back(forward * uniform(0.5F, 3));
    chain.weight_gradients.push_back(below(4) == 0 ? 0 : chain.backward.times.back() * uniform(0, 0.8F));
    chain.returns.push_back(true);
    chain.gradients.push_back(0);
    chain.states.push_back(0);
    chain.joined.push_back(false);
    const bool skip = skips && l >= 2 && below(3) == 0;
    const bool next = l > 0 && !(skip && below(2) == 0);
    for (const auto& [reads, maker] : {std::pair(next, l - 1), std::pair(skip, below(std::max(1, l - 1)))}) {
      if (reads) {
        chain.forward.pairs.emplace_back(maker, l);
        chain.backward.pairs.emplace_back(maker, l);
      }
    }
  }
  return made;
}

ScheduleRequest schedule_of(const Case& one, const Cuts& cuts) {
  const BoundSetting& setting = one.setting;
  ScheduleRequest order = schedule_request({.stages = setting.stages,
                                            .micro_batches = setting.micro_batches,
                                            .pipeline = setting.pipeline,
                                            .chunks = setting.stages / setting.ranks,
                                            .warm_up = setting.warm_up});
  order.hop = setting.ranks > 1 ? one.hop : 0;
  order.head_passes = setting.head_passes;
  order.head = setting.head[0];
  const bool splits = setting.pipeline > PipelineKind::kOneFOneB;
  for (int s = 0; s < setting.stages; ++s) {
    Seconds weights = 0;
    order.forward.push_back(setting.hand_over);
    order.backward.push_back(setting.hand_over);
    for (int l = cuts[static_cast<size_t>(s)]; l < cuts[static_cast<size_t>(s) + 1]; ++l) {
      order.forward.back() += setting.forward * one.chain.forward.times[static_cast<size_t>(l)];
      order.backward.back() += setting.backward * one.chain.backward.times[static_cast<size_t>(l)];
      weights += setting.backward * one.chain.weight_gradients[static_cast<size_t>(l)];
    }
    if (splits) {
      order.input_gradient.push_back(order.backward.back() - weights);
      order.weight_gradient.push_back(weights + setting.hand_over);
    }
  }
  return order;
}

// Runs the lists of a schedule like a program: a stage waits only for the stages whose layers its layers read, and a
// head pass for nothing but the actions before it.
Seconds run_as_program(const Case& one, const Cuts& cuts) {
  const ScheduleRequest order = schedule_of(one, cuts);
  const Schedule schedule = make_schedule(one.setting.pipeline, order);
  const size_t stages = order.forward.size();
  const auto stage_of = [&](int layer) {
    return static_cast<size_t>(std::ranges::upper_bound(cuts, layer) - cuts.begin()) - 1;
  };
  std::vector<std::vector<bool>> reads(stages, std::vector<bool>(stages, false));
  for (const auto& [maker, reader] : one.chain.forward.pairs) {
    reads[stage_of(reader)][stage_of(maker)] = true;
  }
  const auto count = static_cast<size_t>(order.micro_batches);
  std::vector<std::vector<Seconds>> forward(stages, std::vector<Seconds>(count, -1));
  auto backward = forward;
  std::vector<size_t> next(schedule.orders.size(), 0);
  std::vector<Seconds> clock(next.size(), 0);
  const auto time_of = [&](const Action& action) {
    const auto s = static_cast<size_t>(action.stage);
    return action.kind == ActionKind::kHead            ? order.head
           : action.kind == ActionKind::kForward       ? order.forward[s]
           : action.kind == ActionKind::kBackward      ? order.backward[s]
           : action.kind == ActionKind::kInputGradient ? order.input_gradient[s]
                                                       : order.weight_gradient[s];
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < next.size(); ++r) {
      if (next[r] == schedule.orders[r].size()) {
        continue;
      }
      const Action action = schedule.orders[r][next[r]];
      const auto s = static_cast<size_t>(action.stage);
      const auto i = static_cast<size_t>(action.index);
      const bool is_forward = action.kind == ActionKind::kForward;
      const bool is_alone = action.kind == ActionKind::kHead || action.kind == ActionKind::kWeightGradient;
      Seconds start = clock[r];
      for (size_t other = 0; other < stages && !is_alone; ++other) {
        if (other != s && (is_forward ? reads[s][other] : reads[other][s])) {
          const Seconds end = (is_forward ? forward : backward)[other][i];
          start = end < 0 ? kInfinity : std::max(start, end);
        }
      }
      if (start < kInfinity) {
        clock[r] = start + time_of(action);
        if (!is_alone) {
          (is_forward ? forward : backward)[s][i] = clock[r];
        }
        ++next[r];
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < next.size(); ++r) {
    EXPECT_EQ(next[r], schedule.orders[r].size());
  }
  return std::ranges::max(clock);
}

Seconds least_time(const Case& one, const std::function<Seconds(const Case&, const Cuts&)>& time) {
  Seconds least = kInfinity;
  for_each_cuts(static_cast<int>(one.chain.joined.size()), one.setting.stages,
                [&](const Cuts& cuts) { least = std::min(least, time(one, cuts)); });
  return least;
}

Seconds simulated(const Case& one, const Cuts& cuts) {
  const ScheduleRequest order = schedule_of(one, cuts);
  return simulate(make_schedule(one.setting.pipeline, order), order).makespan;
}

std::string text_of(const Case& one) {
  const BoundSetting& setting = one.setting;
  return std::to_string(setting.stages) + " stages on " + std::to_string(setting.ranks) + " devices, " +
         std::to_string(setting.micro_batches) + " micro-batches, " + std::string(word_of(setting.pipeline)) +
         ", warm-up " + std::to_string(setting.warm_up) + ", " + std::to_string(setting.head_passes) + " head passes";
}

// Compares the bounds of random chains with all cuts. `mean` and `most`: the least times exceed the bounds by at most
// these fractions, in the mean and for each chain.
void expect_bounds_of_chains(Pipelines pipelines, uint64_t seeds, double mean, double most) {
  double sum = 0;
  double largest = 0;
  int compared = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Case one = random_case(seed, false, pipelines);
    const Seconds least = least_time(one, simulated);
    const Seconds bound = StepBound(one.chain).least(one.setting);
    ASSERT_LE(bound, least * (1 + 1e-12)) << "seed " << seed << ": " << text_of(one);
    if (one.hop == 0) {  // the bound has no transfers
      sum += least / bound - 1;
      largest = std::max(largest, least / bound - 1);
      ++compared;
    }
  }
  ::testing::Test::RecordProperty("mean_gap", std::to_string(sum / compared));
  ::testing::Test::RecordProperty("largest_gap", std::to_string(largest));
  EXPECT_LT(sum / compared, mean);
  EXPECT_LT(largest, most);
}

// Compares the bounds of random graphs with programs of all cuts. Returns how many are exceeded by less than 1 %.
int tight_bounds_of_graphs(Pipelines pipelines, uint64_t seeds) {
  int tight = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Case one = random_case(seed, true, pipelines);
    one.hop = 0;
    const Seconds least = least_time(one, run_as_program);
    const Seconds bound = StepBound(one.chain).least(one.setting);
    EXPECT_LE(bound, least * (1 + 1e-12)) << "seed " << seed << ": " << text_of(one);
    tight += least < bound * 1.01 ? 1 : 0;
  }
  return tight;
}

TEST(StepBound, NoScheduleOfAChainIsBelowTheBound) { expect_bounds_of_chains(Pipelines::kPlain, 2000, 0.02, 0.6); }

TEST(StepBound, NoScheduleWithSplitPassesOrSeveralStagesOnADeviceIsBelowTheBound) {
  expect_bounds_of_chains(Pipelines::kOthers, 1000, 0.15, 1);
}

TEST(StepBound, NoProgramOfAGraphIsBelowTheBound) {
  EXPECT_GT(tight_bounds_of_graphs(Pipelines::kPlain, 2000), 600);
  EXPECT_GT(tight_bounds_of_graphs(Pipelines::kOthers, 1000), 200);
}

// With equal layers and without hand-overs, the best stages are equal, and both pipelines reach the bound.
TEST(StepBound, EqualLayersReachTheBound) {
  for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
    for (const int micro_batches : {1, 2, 4, 16}) {
      Case one = random_case(1, false, Pipelines::kPlain);
      BoundChain& chain = one.chain;
      chain = {};
      for (int l = 0; l < 8; ++l) {
        chain.forward.times.push_back(1);
        chain.backward.times.push_back(2);
        if (l > 0) {
          chain.forward.pairs.emplace_back(l - 1, l);
          chain.backward.pairs.emplace_back(l - 1, l);
        }
      }
      chain.weight_gradients.assign(8, 1);
      chain.returns.assign(8, true);
      chain.gradients.assign(8, 0);
      chain.states.assign(8, 0);
      chain.joined.assign(8, false);
      chain.last_cut = 7;
      one.hop = 0;
      one.setting = {.stages = 4, .ranks = 4, .micro_batches = micro_batches, .pipeline = pipeline};
      one.setting.head.assign(4, 0);
      one.setting.head_update.assign(4, 0);
      const Seconds time = 6.0 * (micro_batches + 3);
      EXPECT_NEAR(least_time(one, simulated), time, 1e-9) << text_of(one);
      const Seconds bound = StepBound(chain).least(one.setting);
      EXPECT_LE(bound, time) << text_of(one);
      EXPECT_GE(bound, time * 0.999) << text_of(one);
    }
  }
}

TEST(StepBound, ABoundAboveTheGivenOneIsNotSearched) {
  const Case one = random_case(7, false, Pipelines::kPlain);
  const StepBound bound(one.chain);
  const Seconds least = bound.least(one.setting);
  EXPECT_DOUBLE_EQ(bound.least(one.setting, least / 2), least / 2);
  EXPECT_NEAR(bound.least(one.setting, least * 2), least, least * 1e-6);
  EXPECT_LE(bound.even_share(one.setting), least);
}

TEST(StepBound, ASettingWithTooFewCutsHasNoPlan) {
  Case one = random_case(3, false, Pipelines::kPlain);
  one.chain.joined.assign(one.chain.joined.size(), true);
  one.setting.stages = 2;
  one.setting.ranks = 2;
  one.setting.head.assign(2, 0);
  one.setting.head_update.assign(2, 0);
  EXPECT_EQ(StepBound(one.chain).least(one.setting), kInfinity);
}

// The partition of 1,250 layers, simulated, comes near the bound.
TEST(StepBound, LongChainsComeNearTheBound) {
  const RandomStream stream(5, 52);
  Case one;
  PartitionRequest request{.stages = 8, .micro_batches = 32};
  for (int l = 0; l < 1250; ++l) {
    const double forward = static_cast<double>(stream.uniform(static_cast<uint64_t>(l), 0.1F, 3));
    one.chain.forward.times.push_back(forward);
    one.chain.backward.times.push_back(2 * forward);
    request.layers.push_back({.forward = forward, .backward = 2 * forward});
    if (l > 0) {
      one.chain.forward.pairs.emplace_back(l - 1, l);
      one.chain.backward.pairs.emplace_back(l - 1, l);
    }
  }
  one.chain.weight_gradients.assign(1250, 0.1);
  one.chain.returns.assign(1250, true);
  one.chain.gradients.assign(1250, 0);
  one.chain.states.assign(1250, 0);
  one.chain.joined.assign(1250, false);
  one.chain.last_cut = 1249;
  Cuts cuts{0};
  const std::vector<Partition> found = partition(request);
  ASSERT_FALSE(found.empty());
  for (const PartitionStage& stage : found[0].stages) {
    cuts.push_back(stage.end);
  }
  const StepBound bound(one.chain);
  for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
    one.setting = {.stages = 8, .ranks = 8, .micro_batches = 32, .pipeline = pipeline};
    one.setting.head.assign(8, 0);
    one.setting.head_update.assign(8, 0);
    const Seconds time = simulated(one, cuts);
    const Seconds least = bound.least(one.setting);
    RecordProperty(pipeline == PipelineKind::kGpipe ? "gpipe_gap" : "1f1b_gap", std::to_string(time / least - 1));
    EXPECT_LE(least, time);
    EXPECT_LT(time, 1.01 * least) << text_of(one);
  }
}

}  // namespace
}  // namespace xrun::planner
