// Graphs of nearest classes in training: when they are built and used, and which checkpoints are rejected.
// active_plans_test.cpp and stopped_runs_test.cpp test every plan and stop.
#include "runtime/train/knn/knn_graphs.h"

#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <sched.h>
#include <thread>

#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::MemoryStore;
using testing::ModelOptions;
using testing::prepare_for;
using testing::RunsTest;

TrainSpec every(double amount, TrainSpan::Unit unit, const std::string& init = {}) {
  TrainSpec train;
  train.batch = 10;
  train.init_checkpoint = init;
  train.active_classes = {.kind = ActiveSpec::kKnn, .neighbours = 4, .rebuild = {amount, unit}};
  return train;
}

TEST(GraphSchedule, AGraphIsUsedATenthOfThePeriodAfterItsBuildBegins) {
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

TEST(GraphSchedule, ARunFromOtherWeightsHasAGraphAtItsFirstStep) {
  const GraphSchedule schedule(every(20, TrainSpan::kSteps, "other"), 1000);
  EXPECT_EQ(schedule.first(), 0);
  EXPECT_EQ(schedule.use_of(0), 0);
  EXPECT_EQ(schedule.next(0), 0);
  EXPECT_EQ(schedule.next(1), 1);
}

TEST(GraphSchedule, AGraphThatNoStepUsesIsRefused) {
  TrainSpec train = every(1, TrainSpan::kEpochs);  // every 100 steps; the lists are used ten steps later
  train.duration = {110, TrainSpan::kSteps};
  const Status refused = check_graphs(train, 1000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0214");
  EXPECT_EQ(refused.error().message, "the first graph would be used after 110 steps, but the whole run has 110");
  train.duration.amount = 111;
  EXPECT_TRUE(check_graphs(train, 1000).ok());
  train.duration.amount = 1;
  train.init_checkpoint = "other";
  EXPECT_TRUE(check_graphs(train, 1000).ok()) << "the first graph is of the first weights";
  EXPECT_TRUE(check_graphs(TrainSpec{.batch = 10, .duration = {1, TrainSpan::kSteps}}, 1000).ok());
}

TEST(ClassGraphs, ABuildThatStepsWaitForIsReported) {
  EXPECT_FALSE(slow_build("id", true, 300, 100).has_value());
  EXPECT_FALSE(slow_build("id", true, 0.5, 0.5).has_value()) << "nobody notices";
  const auto warning = slow_build("id", true, 300, 280);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "XG0819");
  EXPECT_EQ(warning->message,
            "steps waited 4 min 40 s for the graph of nearest classes of `id`, which takes 5 min 0 s to build: make "
            "`rebuild` of `active_classes` longer, or write exact=false");
  EXPECT_THAT(slow_build("id", false, 300, 280)->message,
              ::testing::EndsWith("make `rebuild` of `active_classes` longer"));
}

TEST(ClassGraphs, AGraphWithLowRecallIsReported) {
  EXPECT_FALSE(poor_graph("id", 1, 16).has_value());
  EXPECT_FALSE(poor_graph("id", 0.9, 16).has_value());
  EXPECT_FALSE(poor_graph("id", 0.5, kMostProbes).has_value()) << "there is nothing to write";
  const auto warning = poor_graph("id", 0.74, 16);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "XG0820");
  EXPECT_EQ(warning->message,
            "the graph of nearest classes of `id` misses 26% of them: write probes=32 in `active_classes`, which takes "
            "longer and misses fewer");
  EXPECT_THAT(poor_graph("id", 0.5, kMostProbes - 1)->message, ::testing::HasSubstr("probes=4096 in"));
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

TEST(BackgroundWork, IsCancelledWhenItIsDestroyed) {
  std::atomic<bool> begun = false;
  std::atomic<bool> followed = false;
  std::atomic<int64_t> items = 0;
  {
    BackgroundWork work(2, [&](ops::Workers& workers) {
      workers.for_each(int64_t{1} << 40, [&](int64_t, int) {
        ++items;
        begun = true;
      });
      followed = true;
    });
    while (!begun) {
      std::this_thread::yield();
    }
    const std::atomic<bool> stop = true;
    EXPECT_FALSE(work.wait(&stop));
  }
  EXPECT_LT(items, int64_t{1} << 40);
  EXPECT_FALSE(followed) << "what follows would read what the items have not written";
}

// There are two items, each of which lasts until its thread has normal priority. On a busy machine, a thread of low
// priority could not raise its own priority.
TEST(BackgroundWork, WaitingForItRaisesItsPriority) {
  std::atomic<int> raised = 0;
  std::atomic<int> begun = 0;
  BackgroundWork work(2, [&](ops::Workers& workers) {
    workers.for_each(2, [&](int64_t, int) {
      ++begun;
      const auto start = std::chrono::steady_clock::now();
      while (sched_getscheduler(0) == SCHED_IDLE &&
             std::chrono::steady_clock::now() - start < std::chrono::minutes(1)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      raised += sched_getscheduler(0) == SCHED_OTHER;
    });
  });
  while (begun < 2) {
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

// The time of a graph and its event is not a part of the next step. The handler of the event sleeps for 300 ms, so a
// step that included this time would be noticed.
TEST_F(KnnRunsTest, WaitingForAGraphIsNotCountedInAStep) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> graph_told;
  int after_graphs = 0;
  events_.at_graph = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    graph_told = Clock::now();
  };
  events_.at_step = [&](const StepReport& step) {
    if (graph_told) {
      const Seconds since = std::chrono::duration<double>(Clock::now() - *graph_told).count();
      EXPECT_LE(step.seconds - step.data_wait, since) << step.step;
      ++after_graphs;
    }
    graph_told.reset();
  };
  const auto outcome = train_with(nullptr, -1);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(after_graphs, 2);
}

TEST_F(KnnRunsTest, AnApproximateGraphReportsItsRecall) {
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

TEST_F(KnnRunsTest, MoreProbesIncreaseTheRecall) {
  options_.active.exact = false;
  double before = 0;
  for (const int64_t probes : {1, 4, 16}) {
    options_.active.probes = probes;
    prepared_ = prepare_for(make_module(options_));
    events_.graphs.clear();
    ASSERT_TRUE(train_with(nullptr, -1).ok());
    ASSERT_EQ(events_.graphs.size(), 2u);
    EXPECT_GE(events_.graphs[0].recall, before) << probes << " probes";
    before = events_.graphs[0].recall;
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

TEST_F(KnnRunsTest, ListsWithInvalidClassesAreRefused) {
  MemoryStore store;
  ASSERT_TRUE(train_with(&store, 15).ok());
  store.tensors.at("id.weight.lists")[6] = std::byte{0x7f};
  const auto rest = train_with(&store, -1);
  ASSERT_FALSE(rest.ok());
  EXPECT_EQ(rest.error().code, "XG0818");
}

}  // namespace
}  // namespace xrun::runtime
