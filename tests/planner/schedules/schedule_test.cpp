#include "planner/schedules/schedule.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {
namespace {

ScheduleRequest even(int stages, int micro_batches, Seconds forward, Seconds backward, Seconds hop) {
  const auto p = static_cast<size_t>(stages);
  return {.forward = std::vector<Seconds>(p, forward),
          .backward = std::vector<Seconds>(p, backward),
          .hop = hop,
          .micro_batches = micro_batches};
}

// A stage cannot receive a value before its passes that precede the transfer, and their transfers, have begun. The
// first backward pass of a stage may take longer.
TEST(Schedule, TransfersOfAStageBeginInTheirOrder) {
  ScheduleRequest request = even(3, 2, 1, 1, 0.5);
  EXPECT_NEAR(simulate(schedule_gpipe(request), request).makespan, 10, 1e-9);
  request.hops = {0, 0.5, 0.5};
  EXPECT_NEAR(simulate(schedule_gpipe(request), request).makespan, 11, 1e-9);
  request.first = {0.25, 0, 0};
  EXPECT_NEAR(simulate(schedule_gpipe(request), request).makespan, 11, 1e-9);
  request.first = {0, 0, 0.25};
  EXPECT_NEAR(simulate(schedule_gpipe(request), request).makespan, 11.25, 1e-9);
}

TEST(Schedule, TheBubbleOfGPipeFollowsItsFormula) {
  const ScheduleRequest request = even(4, 8, 1, 2, 0);
  const ScheduleTimes times = simulate(schedule_gpipe(request), request);
  EXPECT_NEAR(times.bubble, 3.0 / 11.0, 1e-12);  // (p - 1) / (m + p - 1)
  EXPECT_NEAR(times.imbalance, 0, 1e-12);
}

TEST(Schedule, UnequalStagesShowAsImbalance) {
  ScheduleRequest request = even(2, 4, 1, 2, 0);
  request.forward[1] = 2;
  const ScheduleTimes times = simulate(schedule_gpipe(request), request);
  EXPECT_GT(times.imbalance, 0);
}

// Returns the largest number of micro-batches that are in a stage at the same time: their forward pass has begun and
// their backward pass has not ended.
int in_flight(const Schedule& schedule, int stage) {
  int now = 0;
  int most = 0;
  for (const Action& action : schedule.orders[static_cast<size_t>(stage)]) {
    now += action.kind == ActionKind::kForward ? 1 : action.kind == ActionKind::kBackward ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

TEST(Schedule, OneFOneBHasAtMostAsManyMicroBatchesInFlightAsStages) {
  for (const int stages : {1, 2, 4, 8}) {
    for (const int micro_batches : {1, 2, 4, 16}) {
      const ScheduleRequest request = even(stages, micro_batches, 1, 2, 0.1);
      const Schedule schedule = schedule_one_f_one_b(request);
      const Schedule gpipe = schedule_gpipe(request);
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(in_flight(schedule, s), std::min(micro_batches, stages - s));
        EXPECT_EQ(in_flight(gpipe, s), micro_batches);
      }
    }
  }
}

TEST(Schedule, EverySchedulePassesTheCheckerWithAndWithoutHead) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomStream stream(seed, 3);
    ScheduleRequest request;
    const auto stages = 1 + stream.below(0, 6);
    request.micro_batches = 1 + static_cast<int>(stream.below(1, 9));
    request.hop = stream.uniform(2, 0.0F, 1.0F);
    request.head = stream.uniform(3, 0.0F, 3.0F);
    for (uint64_t s = 0; s < stages; ++s) {
      // Some stages take no time, so all their instants coincide.
      const bool idle = stream.below(40 + s, 4) == 0;
      request.forward.push_back(idle ? 0.0 : static_cast<double>(stream.uniform(10 + s, 0.1F, 2.0F)));
      request.backward.push_back(idle ? 0.0 : static_cast<double>(stream.uniform(20 + s, 0.1F, 4.0F)));
    }
    for (const int passes : {0, request.micro_batches}) {
      request.head_passes = passes;
      for (const PipelineKind kind : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
        const Schedule schedule = make_schedule(kind, request);
        const Status good = check_schedule(schedule);
        EXPECT_TRUE(good.ok()) << "seed " << seed << ": " << good.error().message << "\n" << to_text(schedule);
        EXPECT_GT(simulate(schedule, request).makespan + 1, 0);
      }
    }
    request.head_passes = 1;
    const Schedule gpipe = schedule_gpipe(request);
    EXPECT_TRUE(check_schedule(gpipe).ok()) << "seed " << seed;
    const Schedule inference = schedule_inference(request);
    EXPECT_TRUE(check_schedule(inference).ok()) << "seed " << seed;
  }
}

TEST(Schedule, HeadPassesOfOneFOneBFollowTheForwardPassOfTheLastStage) {
  ScheduleRequest request = even(2, 3, 1, 2, 0);
  request.head_passes = 3;
  EXPECT_EQ(to_text(schedule_one_f_one_b(request)),
            "rank 0: F0 F1 H0 B0 H1 F2 B1 H2 B2\n"
            "rank 1: F0 H0 B0 F1 H1 B1 F2 H2 B2\n");
}

// A pass begins when the last stage has made its features and the stages with shards are free. Only these stages are
// busy with it, and the last stage waits for its end.
TEST(Schedule, StagesWithoutShardsDoNotWaitForHeadPasses) {
  ScheduleRequest request = even(2, 2, 1, 2, 0);
  request.head_passes = 2;
  request.head = 3;
  const Schedule schedule = schedule_one_f_one_b(request);
  ASSERT_EQ(to_text(schedule), "rank 0: F0 F1 H0 B0 H1 B1\nrank 1: F0 H0 B0 F1 H1 B1\n");
  const auto times = [&](std::vector<bool> shards) {
    request.shards = std::move(shards);
    const ScheduleTimes made = simulate(schedule, request);
    EXPECT_EQ(made.heads.size(), 2U);
    EXPECT_NEAR(made.heads[1].end - made.heads[1].start, 3, 1e-9);
    return std::pair(made.heads[1].start, made.makespan);
  };
  EXPECT_EQ(times({}), std::pair(9.0, 16.0));
  EXPECT_EQ(times({true, true}), std::pair(9.0, 16.0));
  EXPECT_EQ(times({true, false}), std::pair(9.0, 16.0));
  EXPECT_EQ(times({false, true}), std::pair(8.0, 15.0));
  EXPECT_EQ(times({false, false}), std::pair(8.0, 15.0)) << "the pass is on devices without a stage";
}

Schedule tiny() {
  const ScheduleRequest request{.forward = {1, 1}, .backward = {1, 1}, .micro_batches = 2, .head_passes = 1};
  return schedule_gpipe(request);
}

TEST(Schedule, TheCheckerRejectsBrokenOrders) {
  ASSERT_TRUE(check_schedule(tiny()).ok());
  Schedule missing = tiny();
  missing.orders[0].pop_back();
  EXPECT_FALSE(check_schedule(missing).ok());
  Schedule twice = tiny();
  twice.orders[1].push_back(twice.orders[1][0]);
  EXPECT_FALSE(check_schedule(twice).ok());
  Schedule backwards = tiny();
  std::swap(backwards.orders[1][0], backwards.orders[1][1]);
  EXPECT_FALSE(check_schedule(backwards).ok());
  Schedule early = tiny();  // F0 F1 B0 H0 B1 on the last stage
  std::swap(early.orders[1][2], early.orders[1][3]);
  EXPECT_FALSE(check_schedule(early).ok());
  Schedule stuck = tiny();  // on stage 0, B0 stands before the head pass that it waits for
  std::swap(stuck.orders[0][2], stuck.orders[0][3]);
  const Status status = check_schedule(stuck);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("waits for ever"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace xrun::planner
