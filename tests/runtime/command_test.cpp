// The commands as a user types them, on a small model over synthetic data.
#include "tests/support/command.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/tiny_model.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

class Command : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words, CommandOptions options = {}) {
    options.directory = directory.path();
    return run_xrun(words, options);
  }
  std::string digest(const CommandResult& result) {
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == "end") {
        return event.at("weights");
      }
    }
    return {};
  }
  TemporaryDirectory directory;
};

TEST_F(Command, CheckNamesFilesTestsAndParameters) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"check", "tiny.xgraph"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("ok   tiny.xgraph"));
  EXPECT_THAT(result.out, HasSubstr("1 test passed"));
}

TEST_F(Command, PlanWritesAFileThatTrainRuns) {
  directory.write("tiny.xgraph", tiny_model());
  const auto plan = run({"plan", "tiny.xgraph", "--devices", "2", "--threads", "2"});
  ASSERT_EQ(plan.exit, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("wrote tiny.xplan"));
  const auto train = run({"train", "tiny.xplan", "--progress", "json"});
  ASSERT_EQ(train.exit, 0) << train.err;
  EXPECT_EQ(digest(train).size(), 32u) << train.out;
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
}

TEST_F(Command, TrainedModelIsEvaluatedAndPredicts) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"train", "tiny.xgraph", "--progress", "none"}).exit, 0);
  const auto eval = run({"eval", "tiny.xgraph", "ckpt/quick/latest", "--format", "json"});
  ASSERT_EQ(eval.exit, 0) << eval.err;
  const auto json = nlohmann::json::parse(eval.out);
  EXPECT_GT(json["metrics"]["test"].get<double>(), 0.5) << eval.out;
  EXPECT_EQ(json["samples"]["test"].get<int>(), 500);
  const auto predict =
      run({"predict", "tiny.xgraph", "ckpt/quick/latest", "--source", "test", "--rows", "0..4", "--topk", "3"});
  ASSERT_EQ(predict.exit, 0) << predict.err;
  EXPECT_EQ(std::count(predict.out.begin(), predict.out.end(), '\n'), 4) << predict.out;
}

TEST_F(Command, StoppedRunGoesOnToTheSameWeights) {
  directory.write("tiny.xgraph", tiny_model());
  const auto whole = run({"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", "whole"});
  ASSERT_EQ(whole.exit, 0) << whole.err;
  ASSERT_EQ(run({"train", "tiny.xgraph", "--deterministic", "--progress", "none", "-C", "parts", "--steps", "7"}).exit,
            0);
  const auto rest = run({"train", "tiny.xgraph", "--deterministic", "--progress", "json", "-C", "parts"});
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr(R"("t":"resume")"));
  EXPECT_EQ(digest(whole), digest(rest));
  EXPECT_FALSE(digest(whole).empty());
}

TEST_F(Command, FirstInterruptSavesAndExits75) {
  directory.write("tiny.xgraph", tiny_model());
  const auto result = run({"train", "tiny.xgraph", "--set", "train.epochs=100000", "--progress", "json"},
                          {.signal = 2, .signal_after_s = 1.5});
  EXPECT_EQ(result.exit, 75) << result.err;
  EXPECT_THAT(result.out, HasSubstr(R"("t":"checkpoint")"));
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/ckpt/quick/latest"));
}

TEST_F(Command, ShowLooksIntoModelPlanAndCheckpoint) {
  directory.write("tiny.xgraph", tiny_model());
  ASSERT_EQ(run({"plan", "tiny.xgraph"}).exit, 0);
  ASSERT_EQ(run({"train", "tiny.xplan", "--steps", "2", "--progress", "none"}).exit, 0);
  for (const char* emit : {"tokens", "ast", "checked", "module", "backward", "program"}) {
    const auto shown = run({"show", "tiny.xgraph", "--emit", emit});
    EXPECT_EQ(shown.exit, 0) << emit << shown.err;
    EXPECT_GT(shown.out.size(), 100u) << emit;
  }
  for (const char* table : {"layers", "memory", "comm", "why"}) {
    const auto shown = run({"show", "tiny.xplan", "--table", table});
    EXPECT_EQ(shown.exit, 0) << table << shown.err;
    EXPECT_GT(shown.out.size(), 40u) << table;
  }
  EXPECT_EQ(nlohmann::json::parse(run({"show", "tiny.xplan", "--format", "json"}).out)["format_version"], "1.0");
  EXPECT_THAT(run({"show", "ckpt/quick/latest"}).out, HasSubstr("step"));
  EXPECT_THAT(run({"show", "tiny.xplan", "--gantt"}).out, HasSubstr("stage 0"));
}

TEST_F(Command, DoctorReportsThisMachine) {
  const auto result = run({"doctor"});
  EXPECT_EQ(result.exit, 0);
  EXPECT_THAT(result.out, HasSubstr("cpu"));
  EXPECT_THAT(result.out, HasSubstr("isa"));
}

}  // namespace
}  // namespace xrun::testing
