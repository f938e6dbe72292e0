// Graphs of nearest classes that ranks build together equal those of one process, for any number of ranks. The ranks
// end together after an error or a stop, and other numbers of ranks can resume what they have saved.
#include <gtest/gtest.h>
#include <set>

#include "tests/runtime/runs/rank_runs.h"

namespace xrun::runtime {
namespace {

using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;
using testing::RankOptions;
using testing::RankResult;
using testing::run_one;
using testing::run_ranks;
using testing::SharedStore;
using testing::SlowCommunicator;

// The build of the first graph begins at step 20, and the graph is used from step 22 on.
constexpr int kBegin = 20;
constexpr int kUse = 22;

ModelOptions model_of(bool exact) {
  ModelOptions model{.layers = 2, .classes = 1500, .head = true, .cosine = true, .dropout = 0.1, .steps = 60};
  model.active = {
      .kind = ActiveSpec::kKnn, .amount = 0.3, .neighbours = 8, .rebuild = {kBegin, TrainSpan::kSteps}, .exact = exact};
  model.arguments = {{"momentum", 0.9}};
  model.untouched = Untouched::kExact;
  return model;
}

PlanChoice on_three(int shards) {
  return {.devices = 3, .threads = 4, .stages = 2, .micro_batches = 2, .shards = shards};
}

// A model and its plans.
struct Runs {
  explicit Runs(bool exact) : model(model_of(exact)), prepared(testing::prepare_for(testing::make_module(model))) {}
  planner::Program program(int shards) const { return testing::make_program(prepared, on_three(shards)).value(); }
  RankResult one(const planner::Program& program, const RankOptions& options) const {
    return run_one(prepared, model, program, options);
  }
  std::vector<RankResult> ranks(const planner::Program& program, int count, const RankOptions& options) const {
    return run_ranks(prepared, model, program, count, std::vector(static_cast<size_t>(count), options));
  }

  ModelOptions model;
  Prepared prepared;
};

void expect_same(const RankResult& rank, const RankResult& one) {
  ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
  EXPECT_EQ(rank.weights, one.weights);
  EXPECT_EQ(rank.lists, one.lists);
  EXPECT_TRUE(rank.losses.empty() || rank.losses == one.losses);
  EXPECT_TRUE(rank.active.empty() || rank.active == one.active);
  ASSERT_EQ(rank.graphs.size(), one.graphs.size());
  for (size_t i = 0; i < one.graphs.size(); ++i) {
    EXPECT_EQ(rank.graphs[i].of_step, one.graphs[i].of_step);
    EXPECT_EQ(rank.graphs[i].step, one.graphs[i].step);
    EXPECT_EQ(rank.graphs[i].recall, one.graphs[i].recall);
  }
}

TEST(RankGraphs, EqualThoseOfOneProcess) {
  for (const bool exact : {true, false}) {
    const Runs runs(exact);
    const RankOptions options{.steps = 44};  // enough steps for two graphs
    const RankResult one = runs.one(runs.program(2), options);
    ASSERT_EQ(one.graphs.size(), 2U);
    EXPECT_EQ(one.graphs[0].recall == 1, exact) << "the test of an approximate graph has power";
    EXPECT_GT(std::set<int32_t>(one.lists.begin(), one.lists.end()).size(), 1000U);
    for (int shards = 1; shards <= 4; ++shards) {
      const planner::Program program = runs.program(shards);
      for (int ranks = 1; ranks <= 3; ++ranks) {
        SCOPED_TRACE((exact ? "exact, " : "approximate, ") + on_three(shards).text() + " on " + std::to_string(ranks));
        for (const RankResult& rank : runs.ranks(program, ranks, options)) {
          expect_same(rank, one);
        }
      }
    }
  }
}

// The state is saved before, during and after the build of the first graph.
TEST(RankGraphs, RunsResumeOnOtherNumbersOfRanks) {
  for (const bool exact : {true, false}) {
    const Runs runs(exact);
    const planner::Program program = runs.program(3);
    const RankOptions whole{.steps = 44};
    const RankResult one = runs.one(program, whole);
    for (const int saved : {kBegin, kBegin + 1, kUse, kUse + 3}) {
      for (const auto& [before, after] : {std::pair(2, 3), std::pair(3, 1), std::pair(1, 2)}) {
        SCOPED_TRACE("saved after " + std::to_string(saved) + " steps on " + std::to_string(before) + ", then on " +
                     std::to_string(after) + (exact ? "" : ", approximate"));
        SharedStore store;
        for (const RankResult& rank : runs.ranks(program, before, {.steps = saved, .to = &store})) {
          ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
        }
        EXPECT_TRUE(store.agrees) << "a rank has other rows or lists";
        EXPECT_EQ(store.tensors.contains("id.weight.snapshot"), saved > kBegin && saved <= kUse);
        EXPECT_EQ(store.tensors.contains("id.weight.lists"), saved > kUse);
        for (RankResult& rank : runs.ranks(program, after, {.steps = whole.steps, .from = &store})) {
          ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
          EXPECT_EQ(rank.weights, one.weights);
          EXPECT_EQ(rank.lists, one.lists);
          EXPECT_EQ(rank.graphs.size(), saved > kUse ? 1U : 2U);
          EXPECT_TRUE(rank.losses.empty() ||
                      std::ranges::equal(rank.losses, std::span(one.losses).last(rank.losses.size())));
        }
      }
    }
  }
}

TEST(RankGraphs, ACheckpointWaitsForRowsThatAreLate) {
  const Runs runs(true);
  const planner::Program program = runs.program(3);
  SharedStore want;
  SharedStore got;
  ASSERT_TRUE(runs.one(program, {.steps = kBegin + 1, .to = &want}).status.ok());
  std::vector<RankOptions> options(3, {.steps = kBegin + 1, .to = &got});
  options[1].delay = std::chrono::milliseconds(300);
  for (const RankResult& rank : run_ranks(runs.prepared, runs.model, program, 3, options)) {
    ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
  }
  EXPECT_TRUE(got.agrees);
  ASSERT_TRUE(want.tensors.contains("id.weight.snapshot"));
  EXPECT_TRUE(got.tensors == want.tensors);
}

// Nothing arrives from rank 1, so no rank has a graph when it is needed.
struct WithoutRankOne {
  WithoutRankOne() { options[1].delay = SlowCommunicator::kNever; }
  std::vector<RankResult> run() const { return run_ranks(runs.prepared, runs.model, runs.program(3), 3, options); }
  Runs runs{true};
  std::vector<RankOptions> options = std::vector<RankOptions>(3, {.steps = 44});
};

TEST(RankGraphs, AStopOfOneRankEndsTheWaitOfAll) {
  for (size_t stopping = 0; stopping < 3; ++stopping) {
    WithoutRankOne without;
    without.options[stopping].stops_in_step = kUse;
    for (const RankResult& rank : without.run()) {
      ASSERT_FALSE(rank.status.ok());
      EXPECT_EQ(rank.status.error().kind, ErrorKind::kInterrupted) << rank.status.error().message;
      EXPECT_EQ(rank.steps, kUse);
    }
  }
}

TEST(RankGraphs, AnErrorOfOneRankEndsTheBuildsOfAll) {
  WithoutRankOne without;
  without.options[0].fails_in_step = kBegin + 1;
  for (const RankResult& rank : without.run()) {
    ASSERT_FALSE(rank.status.ok());
    EXPECT_EQ(rank.steps, kBegin + 1);
    EXPECT_NE(rank.status.error().message.find("not finite"), std::string::npos) << rank.status.error().message;
  }
}

TEST(RankGraphs, ARankThatIsGoneEndsTheWaitOfTheOthers) {
  WithoutRankOne without;
  without.options[1].gives_up_in_step = kUse;
  const std::vector<RankResult> results = without.run();
  for (const size_t other : {0U, 2U}) {
    ASSERT_FALSE(results[other].status.ok());
    EXPECT_EQ(results[other].steps, kUse);
    EXPECT_NE(results[other].status.error().message.find("is gone"), std::string::npos)
        << results[other].status.error().message;
  }
}

}  // namespace
}  // namespace xrun::runtime
