// Graphs of nearest classes in training: when they are built and used, whatever the plan, the time that a build takes,
// and where a run is stopped.
#include "runtime/train/class_graphs.h"

#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>

#include "tests/runtime/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::MemoryStore;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::RunsTest;

TrainSpec every(double amount, TrainSpan::Unit unit, const std::string& init = {}) {
  TrainSpec train;
  train.batch = 10;
  train.init_checkpoint = init;
  train.active_classes = {.kind = ActiveSpec::kKnn, .neighbours = 4, .rebuild = {amount, unit}};
  return train;
}

TEST(GraphSchedule, ABuildHasATenthOfThePeriod) {
  const GraphSchedule schedule(every(20, TrainSpan::kSteps), 1000);
  EXPECT_EQ(schedule.first(), 1);
  EXPECT_EQ(schedule.begin_of(1), 20);
  EXPECT_EQ(schedule.use_of(1), 22);
  EXPECT_EQ(schedule.use_of(3), 62);
  EXPECT_EQ(schedule.next(0), 1);
  EXPECT_EQ(schedule.next(22), 1) << "not before step 22 itself";
  EXPECT_EQ(schedule.next(23), 2);
}

TEST(GraphSchedule, PeriodsMayBePartsOfAnEpochOrOfAStep) {
  const GraphSchedule third(every(1.0 / 3, TrainSpan::kEpochs), 1000);  // 33 1/3 steps
  EXPECT_EQ(third.begin_of(1), 34);
  EXPECT_EQ(third.begin_of(3), 100);
  const GraphSchedule tiny(every(5, TrainSpan::kSamples), 1000);
  EXPECT_EQ(tiny.begin_of(2), 2);
  EXPECT_EQ(tiny.use_of(2), 2);
}

TEST(GraphSchedule, WeightsOfAnotherRunHaveAGraphAtOnce) {
  const GraphSchedule schedule(every(20, TrainSpan::kSteps, "other"), 1000);
  EXPECT_EQ(schedule.first(), 0);
  EXPECT_EQ(schedule.use_of(0), 0);
  EXPECT_EQ(schedule.next(0), 0);
  EXPECT_EQ(schedule.next(1), 1);
}

TEST(ClassGraphs, ABuildThatStepsWaitForIsTold) {
  EXPECT_FALSE(slow_build("id", 300, 100).has_value());
  EXPECT_FALSE(slow_build("id", 0.5, 0.5).has_value()) << "nobody notices";
  const auto warning = slow_build("id", 300, 280);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "XG0819");
  EXPECT_EQ(warning->message,
            "steps waited 4 min 40 s for the graph of nearest classes of `id`, which takes 5 min 0 s to build: make "
            "`rebuild` of `active_classes` longer, or write exact=false");
}

TEST(BackgroundWork, DoesEachItemOnce) {
  std::vector<std::atomic<int>> done(1000);
  BackgroundWork work(3, [&](ops::Workers& workers) {
    for (int round = 0; round < 4; ++round) {
      workers.for_each(1000, [&](int64_t item, int worker) {
        EXPECT_LT(worker, 3);
        ++done[static_cast<size_t>(item)];
      });
    }
  });
  EXPECT_TRUE(work.wait());
  EXPECT_THAT(std::vector<int>(done.begin(), done.end()), ::testing::Each(4));
}

TEST(BackgroundWork, IsLeftWhenNobodyWantsIt) {
  std::atomic<bool> begun = false;
  int64_t items = 0;
  {
    BackgroundWork work(1, [&](ops::Workers& workers) {
      workers.for_each(int64_t{1} << 40, [&](int64_t, int) {
        ++items;
        begun = true;
      });
    });
    while (!begun) {
      std::this_thread::yield();
    }
    const std::atomic<bool> stop = true;
    EXPECT_FALSE(work.wait(&stop));
  }
  EXPECT_LT(items, int64_t{1} << 40);
}

// Each of two items lasts until its thread has the priority of others: on a full machine it could not raise itself.
TEST(BackgroundWork, IsRaisedByTheOneThatWaits) {
  std::atomic<int> raised = 0;
  std::atomic<int> idle = 0;
  BackgroundWork work(2, [&](ops::Workers& workers) {
    workers.for_each(2, [&](int64_t, int) {
      idle += sched_getscheduler(0) == SCHED_IDLE;
      const auto start = std::chrono::steady_clock::now();
      while (sched_getscheduler(0) == SCHED_IDLE &&
             std::chrono::steady_clock::now() - start < std::chrono::minutes(1)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      raised += sched_getscheduler(0) == SCHED_OTHER;
    });
  });
  while (idle < 1) {  // the other may enter once it is raised already
    std::this_thread::yield();
  }
  EXPECT_TRUE(work.wait());
  EXPECT_EQ(raised, 2);
}

class KnnRunsTest : public RunsTest {
 protected:
  KnnRunsTest() {
    options_ = {.classes = 1500, .head = true, .cosine = true, .dropout = 0.1, .steps = 30};
    options_.active = {.kind = ActiveSpec::kKnn, .amount = 0.5, .neighbours = 8, .rebuild = {10, TrainSpan::kSteps}};
    prepared_ = prepare_for(make_module(options_));
  }
};

TEST_F(KnnRunsTest, EachGraphIsUsedFromItsStepOn) {
  const auto outcome = train_with(nullptr, -1);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_EQ(events_.graphs.size(), 2u);
  EXPECT_EQ(events_.graphs[0].of_step, 10);
  EXPECT_EQ(events_.graphs[0].step, 11);
  EXPECT_EQ(events_.graphs[1].of_step, 20);
  EXPECT_EQ(events_.graphs[1].step, 21);
  EXPECT_EQ(events_.graphs[1].head, "id");
  int measured = 0;
  for (const StepReport& step : events_.steps) {
    ASSERT_EQ(step.active.size(), 1u);
    EXPECT_EQ(step.active[0].classes, 750);
    const bool due = step.step % 10 == 0;
    EXPECT_EQ(!std::isnan(step.active[0].mass), due) << step.step;
    if (due) {
      ++measured;
      EXPECT_GT(step.active[0].mass, 0.4);
      EXPECT_LE(step.active[0].mass, 1.0001);
    }
  }
  EXPECT_EQ(measured, 3);
  EXPECT_LT(events_.steps.back().loss, events_.steps.front().loss);
}

TEST_F(KnnRunsTest, EveryPlanSelectsTheSameClasses) {
  const auto whole = train_with(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  for (const PlanChoice& choice :
       {PlanChoice{.devices = 2, .threads = 2, .shards = 2},
        PlanChoice{.devices = 2, .threads = 4, .stages = 2, .micro_batches = 3, .shards = 3},
        PlanChoice{.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3},
        PlanChoice{.devices = 1, .threads = 3, .micro_batches = 2, .kept_blocks = 2}}) {
    choice_ = choice;
    const auto other = train_with(nullptr, -1);
    ASSERT_TRUE(other.ok()) << choice.text() << ": " << other.error().message;
    EXPECT_EQ(other->weights, whole->weights) << choice.text();
    EXPECT_EQ(other->loss, whole->loss) << choice.text();
  }
}

TEST_F(KnnRunsTest, AnApproximateGraphTellsItsRecall) {
  options_.active.exact = false;
  prepared_ = prepare_for(make_module(options_));
  const auto outcome = train_with(nullptr, -1);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_EQ(events_.graphs.size(), 2u);
  EXPECT_GT(events_.graphs[1].recall, 0.3);
  EXPECT_LE(events_.graphs[1].recall, 1);
  choice_ = {.devices = 2, .threads = 3, .micro_batches = 2, .shards = 2};
  const auto other = train_with(nullptr, -1);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->weights, outcome->weights);
}

TEST_F(KnnRunsTest, AStoppedRunGoesOnWithTheGraphThatItHadAndTheOneThatWasBuilt) {
  const auto whole = train_with(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  for (const int64_t steps : {9, 10, 11, 12, 20, 21, 22}) {
    MemoryStore store;
    ASSERT_TRUE(train_with(&store, steps).ok());
    EXPECT_EQ(store.tensors.contains("id.weight.lists"), steps > 11) << steps;
    EXPECT_EQ(store.tensors.contains("id.weight.snapshot"), steps == 11 || steps == 21) << steps;
    const auto rest = train_with(&store, -1);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->weights, whole->weights) << "stopped after step " << steps;
    EXPECT_EQ(rest->loss, whole->loss) << steps;
  }
}

TEST_F(KnnRunsTest, ACheckpointWithoutTheGraphIsRefused) {
  for (const char* name : {"id.weight.lists", "id.weight.snapshot"}) {
    MemoryStore store;
    ASSERT_TRUE(train_with(&store, 21).ok());
    ASSERT_EQ(store.tensors.erase(name), 1u);
    const auto rest = train_with(&store, -1);
    ASSERT_FALSE(rest.ok());
    EXPECT_EQ(rest.error().code, "XG0818");
    EXPECT_THAT(rest.error().message, ::testing::HasSubstr(name));
  }
}

TEST_F(KnnRunsTest, ListsThatNameNoClassesAreRefused) {
  MemoryStore store;
  ASSERT_TRUE(train_with(&store, 15).ok());
  store.tensors.at("id.weight.lists")[6] = std::byte{0x7f};
  const auto rest = train_with(&store, -1);
  ASSERT_FALSE(rest.ok());
  EXPECT_EQ(rest.error().code, "XG0818");
}

}  // namespace
}  // namespace xrun::runtime
