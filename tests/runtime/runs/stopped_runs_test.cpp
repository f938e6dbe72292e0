// Runs with active classes that are stopped in the middle of an epoch, also while a graph of nearest classes is built,
// and resumed with another plan. The next hundred losses must equal those of an undisturbed run.
#include <gtest/gtest.h>

#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::MemoryStore;
using testing::PlanChoice;
using testing::prepare_for;
using testing::RunsTest;
using testing::SyntheticRows;

struct Kept {
  const char* name;
  ActiveSpec::Kind kind;
  RowFormat weights = RowFormat::kF32;
  RowFormat states = RowFormat::kF32;
  Untouched untouched = Untouched::kAsIs;
  bool exact_graph = true;
};

class StoppedRuns : public RunsTest, public ::testing::WithParamInterface<Kept> {
 protected:
  static constexpr int64_t kFollowing = 100;

  StoppedRuns() {
    const Kept& kept = GetParam();
    options_ = {.classes = 1500, .head = true, .cosine = true, .dropout = 0.1, .steps = 56 + kFollowing};
    options_.arguments = {{"momentum", 0.9}};
    options_.active = {.kind = kept.kind, .amount = 0.3, .exact = kept.exact_graph};
    if (kept.kind == ActiveSpec::kKnn) {
      options_.active.neighbours = 8;
      options_.active.rebuild = {50, TrainSpan::kSteps};  // a graph is built from step 50 to 55, 100 to 105, ...
    }
    options_.weights = kept.weights;
    options_.states = kept.states;
    options_.untouched = kept.untouched;
    prepared_ = prepare_for(make_module(options_));
  }

  std::vector<double> losses() {
    std::vector<double> losses;
    for (const StepReport& step : events_.steps) {
      losses.push_back(step.loss);
    }
    events_.steps.clear();
    return losses;
  }
};

// Asks the run to stop when the batch of a given step is fetched.
class StoppingRows final : public BatchSource {
 public:
  StoppingRows(SyntheticRows& rows, int64_t step, std::atomic<bool>& stop) : rows_(rows), step_(step), stop_(stop) {}
  int64_t samples() const override { return rows_.samples(); }
  Status start(int64_t first_step, std::span<const BatchView> ring) override { return rows_.start(first_step, ring); }
  void resize(const StepRows& steps) override { rows_.resize(steps); }
  bool ready(int64_t) override { return false; }
  Status wait(int64_t step) override {
    stop_ = stop_ || step == step_;
    return rows_.wait(step);
  }
  void release(int64_t step) override { rows_.release(step); }
  void stop() override { rows_.stop(); }

 private:
  SyntheticRows& rows_;
  int64_t step_;
  std::atomic<bool>& stop_;
};

INSTANTIATE_TEST_SUITE_P(
    Kept, StoppedRuns,
    ::testing::Values(Kept{"KnnExact", ActiveSpec::kKnn, RowFormat::kF32, RowFormat::kF32, Untouched::kExact},
                      Kept{"KnnBf16", ActiveSpec::kKnn, RowFormat::kBf16, RowFormat::kBf16},
                      Kept{"KnnFp8Approximate", ActiveSpec::kKnn, RowFormat::kFp8, RowFormat::kBf16, Untouched::kAsIs,
                           false},
                      Kept{"SampleExact", ActiveSpec::kSample, RowFormat::kF32, RowFormat::kF32, Untouched::kExact},
                      Kept{"KnnExactBf16", ActiveSpec::kKnn, RowFormat::kBf16, RowFormat::kF32, Untouched::kExact},
                      Kept{"SampleExactFp8", ActiveSpec::kSample, RowFormat::kFp8, RowFormat::kF32, Untouched::kExact},
                      Kept{"SampleBf16", ActiveSpec::kSample, RowFormat::kBf16, RowFormat::kBf16}),
    [](const auto& param) { return std::string(param.param.name); });

TEST_P(StoppedRuns, ResumeWithTheSameLosses) {
  MemoryStore at_end;
  const auto whole = train_with(&at_end, -1);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const std::vector<double> expected = losses();
  ASSERT_EQ(expected.size(), static_cast<size_t>(options_.steps));
  const bool knn = GetParam().kind == ActiveSpec::kKnn;
  // Stops before, during and after the build of the first graph.
  const bool all = GetParam().name == std::string("KnnExact");
  for (const int64_t steps : all ? std::vector<int64_t>{1, 49, 50, 51, 54, 55, 56} : std::vector<int64_t>{51, 56}) {
    SCOPED_TRACE("stopped after step " + std::to_string(steps));
    MemoryStore store;
    choice_ = {};
    ASSERT_TRUE(train_with(&store, steps).ok());
    EXPECT_EQ(store.tensors.contains("id.weight.lists"), knn && steps > 55);
    EXPECT_EQ(store.tensors.contains("id.weight.snapshot"), knn && steps > 50 && steps <= 55);
    EXPECT_EQ(store.tensors.contains("id.weight.last"), GetParam().untouched == Untouched::kExact);
    EXPECT_TRUE(store.tensors.contains("id.weight.velocity"));
    losses();
    choice_ = steps % 2 == 0 ? PlanChoice{} : PlanChoice{.devices = 2, .threads = 2, .micro_batches = 3, .shards = 3};
    const auto rest = train_with(&store, -1);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    const std::vector<double> following = losses();
    ASSERT_GE(following.size(), static_cast<size_t>(kFollowing));
    EXPECT_TRUE(std::ranges::equal(following, std::span(expected).subspan(static_cast<size_t>(steps))));
    EXPECT_EQ(rest->weights, whole->weights);
    EXPECT_TRUE(store.tensors == at_end.tensors) << "what the checkpoints at the end hold";
  }
}

// Step 55 waits for the first graph. The run ends before that step or, if the graph is already there, after it.
TEST_P(StoppedRuns, AStopDuringTheWaitForAGraphLosesNoStep) {
  const auto whole = train_with(nullptr, 80);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  MemoryStore store;
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  std::atomic<bool> stop = false;
  StoppingRows stopping(rows, 55, stop);
  const auto part = train_on(stopping, &store, -1, &stop);
  ASSERT_TRUE(part.ok()) << part.error().message;
  EXPECT_TRUE(part->interrupted);
  EXPECT_TRUE(part->step == 55 || part->step == 56) << part->step;
  EXPECT_EQ(store.latest->step, part->step);
  const auto rest = train_with(&store, 80);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->weights, whole->weights);
}

}  // namespace
}  // namespace xrun::runtime
