#include "planner/schedules/auto_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/schedules/greedy_schedule.h"
#include "planner/schedules/saved_peaks.h"
#include "planner/schedules/simulate_schedule.h"
#include "tests/planner/schedules/requests.h"

namespace xrun::planner {
namespace {

using testing::equal_stages;

// The schedules that schedule_auto tries, made one by one.
std::vector<Schedule> all_schedules(const ScheduleRequest& request) {
  std::vector<Schedule> all;
  for (const FixedSchedule& fixed : fixed_schedules()) {
    if (fixed.check(request).ok()) {
      all.push_back(fixed.make(request));
    }
  }
  for (const GreedyRules& rules : greedy_rules(request)) {
    if (auto made = greedy_schedule(request, rules)) {
      all.push_back(insert_head_passes(*std::move(made), request));
    }
  }
  return all;
}

TEST(AutoSchedule, NoScheduleOfARandomRequestIsFaster) {
  int greedy = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const ScheduleRequest request = testing::random_request(seed);
    const auto best = schedule_auto(request);
    ASSERT_TRUE(best.ok()) << "seed " << seed;
    EXPECT_EQ(simulate(best->schedule, request).makespan, best->makespan) << "seed " << seed;
    for (const Schedule& schedule : all_schedules(request)) {
      const Status good = check_schedule(schedule);
      ASSERT_TRUE(good.ok()) << "seed " << seed << ": " << good.error().message << "\n" << to_text(schedule);
      EXPECT_LE(best->makespan, simulate(schedule, request).makespan) << "seed " << seed;
    }
    greedy += best->name == "greedy" ? 1 : 0;
  }
  EXPECT_GE(greedy, 500) << "most stages have unequal times, for which no formula is made";
}

// With a limit on each rank, the result keeps it, and no other schedule that keeps it is faster.
TEST(AutoSchedule, LimitsOfMemoryHold) {
  int fits = 0;
  int refused = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    ScheduleRequest request = testing::random_request(seed);
    testing::Draws draws(seed, 9);
    const Schedule gpipe = schedule_gpipe(request);
    for (const double peak : saved_peaks(gpipe, request)) {
      request.memory.push_back(peak * draws.uniform(0.2F, 1));
    }
    const auto best = schedule_auto(request);
    fits += best.ok() ? 1 : 0;
    refused += best.ok() ? 0 : 1;
    if (best.ok()) {
      EXPECT_TRUE(check_schedule(best->schedule).ok()) << "seed " << seed;
      EXPECT_TRUE(fits_memory(saved_peaks(best->schedule, request), request)) << "seed " << seed;
    }
    for (const Schedule& schedule : all_schedules(request)) {
      if (fits_memory(saved_peaks(schedule, request), request)) {
        EXPECT_LE(best.ok() ? best->makespan : -1, simulate(schedule, request).makespan) << "seed " << seed;
      }
    }
  }
  EXPECT_GE(fits, 100);
  EXPECT_GE(refused, 100);
}

// If every rank can save one micro-batch of each of its stages, there is a schedule, however stages are placed.
TEST(AutoSchedule, OneMicroBatchOfMemoryIsEnough) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    ScheduleRequest request = testing::random_request(seed);
    request.memory.assign(request.extra_warm_up.size(), 0);
    for (size_t s = 0; s < request.saved.size(); ++s) {
      request.memory[static_cast<size_t>(request.rank_of_stage[s])] += request.saved[s];
    }
    for (const GreedyRules& rules : greedy_rules(request)) {
      const auto made = greedy_schedule(request, rules);
      ASSERT_TRUE(made) << "seed " << seed;
      EXPECT_TRUE(check_schedule(*made).ok()) << "seed " << seed;
      EXPECT_TRUE(fits_memory(saved_peaks(*made, request), request)) << "seed " << seed;
    }
  }
}

TEST(AutoSchedule, EqualStagesGetTheBestFormula) {
  const auto name = [](const ScheduleRequest& request) { return schedule_auto(request)->name; };
  ScheduleRequest request = equal_stages(folded_ranks(4), 16, 0.1);
  request.memory.assign(4, 4);
  EXPECT_LE(schedule_auto(request)->makespan, 50.8 + 1e-9);
  request.memory.assign(4, 3);
  const auto small = schedule_auto(request);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(small->name, "greedy") << "zb_v saves 4 micro-batches";
  EXPECT_GT(small->makespan, 50.8);
  ScheduleRequest whole = equal_stages(looped_ranks(4, 4), 16, 0);
  whole.input_gradient.clear();
  whole.weight_gradient.clear();
  EXPECT_EQ(name(whole), "one_f_one_b") << "it is as fast as gpipe, and saves less";
}

// With more memory than 1F1B needs, and transfers that take time, more forward passes run first.
TEST(AutoSchedule, MoreMemoryCoversTransfers) {
  ScheduleRequest request = equal_stages(looped_ranks(4, 4), 16, 1);
  request.input_gradient.clear();
  request.weight_gradient.clear();
  Seconds last = 1e9;
  for (const double memory : {4.0, 5.0, 7.0}) {
    request.memory.assign(4, memory);
    const auto best = schedule_auto(request);
    ASSERT_TRUE(best.ok());
    EXPECT_LT(best->makespan, last) << memory;
    last = best->makespan;
  }
  EXPECT_LE(last, 63 + 1e-9);
}

TEST(AutoSchedule, ARequestThatDoesNotFitNamesTheRank) {
  ScheduleRequest request = equal_stages(looped_ranks(2, 2), 4, 0);
  request.memory = {2, 0.5};
  const auto made = schedule_auto(request);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0601");
  EXPECT_EQ(made.error().message, "no schedule fits: rank 1 would save 1 for its backward passes, of at most 0.5");
}

// One head pass for the step needs all forward passes.
TEST(AutoSchedule, OneHeadPassForTheStepIsPossibleUnderGPipeOnly) {
  ScheduleRequest request = equal_stages(folded_ranks(2), 4, 0.1);
  request.head_passes = 1;
  const auto made = schedule_auto(request);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->name, "gpipe");
  EXPECT_TRUE(check_schedule(made->schedule).ok());
}

TEST(SavedPeaks, GradientsOfInputsReleaseAllThatGradientsOfWeightsDoNotNeed) {
  ScheduleRequest request = equal_stages(looped_ranks(2, 2), 3, 0);
  // Rank 1: F0 I0 F1 I1 W0 F2 I2 W1 W2
  const Schedule schedule = schedule_zb_h1(request);
  EXPECT_EQ(saved_peaks(schedule, request), (std::vector<double>{2, 2}));
  request.saved = {10, 10};
  request.retained = {10, 4};
  EXPECT_EQ(saved_peaks(schedule, request), (std::vector<double>{20, 14}));
  request.retained = {0, 0};
  EXPECT_EQ(saved_peaks(schedule, request), (std::vector<double>{20, 10}));
  EXPECT_EQ(saved_peaks(schedule_gpipe(request), request), (std::vector<double>{30, 30}));
}

}  // namespace
}  // namespace xrun::planner
