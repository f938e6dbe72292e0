// A batch that is larger than the training source: the commands that open the data warn of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/run_events.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::run_events;
using xrun::testing::run_xrun;

class LargeBatch : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("tiny.xgraph", xrun::testing::tiny_model()); }
  CommandResult run(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    return run_xrun(words, {.directory = directory.path(), .timeout_s = 600});
  }
  // The model has 640 samples, three epochs and a batch of 32.
  const std::vector<std::string> flags{"--set", "train.batch=1024", "--set", "train.lr=1e-2"};
  xrun::testing::TemporaryDirectory directory;
};

TEST_F(LargeBatch, GivesAWarningInPlanTrainAndCheck) {
  const std::string said =
      "a step takes 1 024 samples, and `train` has 640: each of them is in a step 1.6 times on average, and the whole "
      "run has 2 steps";
  const CommandResult plan = run({"plan", "tiny.xgraph", "--dry-run"}, flags);
  EXPECT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("warning[XG0417]: " + said));
  EXPECT_THAT(plan.err, HasSubstr("make `batch` at most 640, or train on more samples"));
  const CommandResult train = run({"train", "tiny.xgraph", "--progress", "json"}, flags);
  EXPECT_EQ(train.exit, 0) << train.err;
  size_t warned = 0;
  for (const auto& event : run_events(train.out, "warn")) {
    warned += event.at("code") == "XG0417" ? 1 : 0;
  }
  EXPECT_EQ(warned, 1u);
  EXPECT_EQ(run_events(train.out, "end")[0].at("step"), 2) << "as the warning says";
  const CommandResult check = run({"check", "tiny.xgraph", "--data"}, flags);
  EXPECT_EQ(check.exit, 0);
  EXPECT_THAT(check.err, HasSubstr(said));
}

TEST_F(LargeBatch, CountsAccumulatedPartsOfAnUpdate) {
  const CommandResult plan =
      run({"plan", "tiny.xgraph", "--dry-run"},
          {"--set", "train.batch=320", "--set", "train.grad_accumulation=4", "--set", "train.lr=1e-2"});
  EXPECT_THAT(plan.err,
              HasSubstr("a step takes 1 280 samples (`batch` times grad_accumulation = 4), and `train` has 640: "
                        "each of them is in a step 2.0 times on average"));
  EXPECT_THAT(plan.err, HasSubstr("make their product at most 640"));
}

TEST_F(LargeBatch, IsNotReportedForABatchOfAllSamples) {
  for (const char* batch : {"train.batch=640", "train.batch=32"}) {
    const CommandResult plan = run({"plan", "tiny.xgraph", "--dry-run"}, {"--set", batch, "--set", "train.lr=1e-2"});
    EXPECT_EQ(plan.exit, 0) << plan.err;
    EXPECT_THAT(plan.err, Not(HasSubstr("XG0417")));
  }
}

}  // namespace
