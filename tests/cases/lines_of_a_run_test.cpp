// The numbers in a line of progress: they cover all steps since the previous line, and not only the last step.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cases/run_events.h"
#include "tests/support/command.h"
#include "tests/support/tiny_model.h"

namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using xrun::testing::CommandResult;
using xrun::testing::run_events;
using xrun::testing::run_xrun;

class LinesOfARun : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("tiny.xgraph", xrun::testing::tiny_model()); }
  CommandResult train(const std::string& out, std::vector<std::string> flags) const {
    std::vector<std::string> words{"train", "tiny.xgraph", "-C", out, "--progress", "json"};
    words.insert(words.end(), flags.begin(), flags.end());
    CommandResult result = run_xrun(words, {.directory = directory.path(), .timeout_s = 600});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
  std::vector<json> steps(const std::string& out, std::vector<std::string> flags) const {
    return run_events(train(out, std::move(flags)).out, "step");
  }
  xrun::testing::TemporaryDirectory directory;
};

TEST_F(LinesOfARun, LossAndMetricsAreMeansOfTheStepsSinceThePreviousLine) {
  const auto single = steps("one", {"--deterministic", "--set", "train.log.every=1 steps"});
  ASSERT_EQ(single.size(), 60u);
  for (const auto& flags : {std::vector<std::string>{"--devices", "1"},
                            {"--devices", "2", "--set", "schedule.stages=2"},
                            {"--devices", "2", "--set", "schedule.stages=1", "--set", "schedule.replicas=2"}}) {
    std::vector<std::string> words{"--deterministic", "--set", "train.log.every=20 steps"};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto lines = steps("lines" + std::to_string(flags.size()), words);
    ASSERT_EQ(lines.size(), 3u);
    for (const char* key : {"loss", "accuracy"}) {
      for (size_t line = 0; line < 3; ++line) {
        double sum = 0;
        for (size_t step = 20 * line; step < 20 * line + 20; ++step) {
          sum += single[step].at(key).get<double>();
        }
        EXPECT_EQ(lines[line].at(key).get<double>(), sum / 20) << key << " of line " << line;
      }
    }
  }
}

// Checkpoints do not save the losses of earlier steps, so the first line of a resumed run covers only its own steps.
TEST_F(LinesOfARun, FirstLineOfAResumedRunCoversOnlyItsOwnSteps) {
  const auto single = steps("one", {"--deterministic", "--set", "train.log.every=1 steps"});
  const std::vector<std::string> flags{"--deterministic", "--set", "train.log.every=20 steps"};
  auto first = flags;
  first.insert(first.end(), {"--steps", "30"});
  const CommandResult stopped = train("parts", first);
  const auto lines = run_events(stopped.out, "step");
  ASSERT_EQ(lines.size(), 2u) << "the last step of a part always has a line";
  EXPECT_EQ(run_events(stopped.out, "end")[0].at("loss"), single[29].at("loss"))
      << "`end` has the loss of the last step";
  const auto mean_of = [&](size_t from, size_t to) {
    double sum = 0;
    for (size_t step = from; step < to; ++step) {
      sum += single[step].at("loss").get<double>();
    }
    return sum / static_cast<double>(to - from);
  };
  EXPECT_EQ(lines[1].at("loss").get<double>(), mean_of(20, 30));
  const auto rest = steps("parts", flags);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].at("step"), 40);
  EXPECT_EQ(rest[0].at("loss").get<double>(), mean_of(30, 40));
  EXPECT_EQ(rest[1].at("loss").get<double>(), mean_of(40, 60));
}

// The steps of this model are much faster than its saves and evaluations.
TEST_F(LinesOfARun, SpeedLeavesOutEvaluationsAndSaves) {
  const auto lines = steps("all", {"--set", "train.log.every=10 steps", "--set", "train.eval.every=5 steps", "--set",
                                   "train.checkpoint.every=5 steps"});
  ASSERT_EQ(lines.size(), 6u);
  double by_clock = 0;
  double by_lines = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const double pauses = lines[i].at("eval_s").get<double>() + lines[i].at("save_s").get<double>();
    EXPECT_GT(lines[i].at("eval_s").get<double>(), 0);
    EXPECT_GT(lines[i].at("save_s").get<double>(), 0);
    by_clock += lines[i].at("time").get<double>() - lines[i - 1].at("time").get<double>() - pauses;
    by_lines += 10 * 32 / lines[i].at("images_per_s").get<double>();
    // A step and its wait for data lie within the time between two lines of the log.
    EXPECT_LE(10 * lines[i].at("step_s").get<double>(), 1.01 * 10 * 32 / lines[i].at("images_per_s").get<double>());
    EXPECT_LE(lines[i].at("data_s").get<double>(), lines[i].at("step_s").get<double>());
  }
  EXPECT_NEAR(by_lines, by_clock, 0.1 * by_clock);
}

TEST_F(LinesOfARun, TheStartEventHasTheSamplesOfAnEpochAndOfAStep) {
  const auto starts = run_events(train("start", {"--steps", "1"}).out, "start");
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].at("samples"), 640);
  EXPECT_EQ(starts[0].at("batch"), 32);
}

TEST_F(LinesOfARun, PlainOutputShowsSamplesPerSecond) {
  const CommandResult plain =
      run_xrun({"train", "tiny.xgraph", "--progress", "plain", "--set", "train.checkpoint.every=5 steps"},
               {.directory = directory.path()});
  ASSERT_EQ(plain.exit, 0) << plain.err;
  EXPECT_THAT(plain.err, ContainsRegex(" step=20 [^\n]* samples_per_s=[0-9]+ [^\n]*data_ms="));
  EXPECT_THAT(plain.err, Not(HasSubstr("images_per_s")));
  const CommandResult shown = run_xrun({"show", "ckpt/quick/log.jsonl"}, {.directory = directory.path()});
  EXPECT_THAT(shown.out, ContainsRegex("\n  samples/s   [0-9.]+ at step 60 "));
  EXPECT_THAT(shown.out, Not(HasSubstr("images_per_s")));
  const CommandResult figures =
      run_xrun({"show", "ckpt/quick/log.jsonl", "--format", "json"}, {.directory = directory.path()});
  EXPECT_TRUE(json::parse(figures.out).at("training").contains("images_per_s")) << "programs read the key of before";
  const CommandResult plan = run_xrun({"plan", "tiny.xgraph"}, {.directory = directory.path()});
  EXPECT_THAT(plan.out, ContainsRegex("predicted  [0-9 ]+ samples/s"));
}

// The log of a run that is still training or was killed has no `end` event.
TEST_F(LinesOfARun, ALogWithoutAnEndIsShownWithTheTimeOfItsEvents) {
  train("killed", {"--steps", "25"});
  std::string log = xrun::testing::read_file(directory.path() + "/killed/ckpt/quick/log.jsonl");
  log.resize(log.rfind("{\"v\":1,\"t\":\"end\""));
  directory.write("log.jsonl", log);
  const CommandResult shown = run_xrun({"show", "log.jsonl"}, {.directory = directory.path()});
  ASSERT_EQ(shown.exit, 0) << shown.err;
  EXPECT_THAT(
      shown.out,
      ContainsRegex(
          "^log.jsonl   1 run   step 25 of 60   [0-9.]+ m?s   has not ended: it is still running, or was killed\n"));
  EXPECT_THAT(shown.out, Not(HasSubstr("0.0 us")));
  const CommandResult figures = run_xrun({"show", "log.jsonl", "--format", "json"}, {.directory = directory.path()});
  EXPECT_EQ(json::parse(figures.out).at("ended"), false);
  EXPECT_GT(json::parse(figures.out).at("seconds").get<double>(), 0);
}

// A resumed run repeats some steps. TensorBoard drops the earlier ones if the new file begins with a session_log event.
TEST_F(LinesOfARun, TheTensorBoardFileOfAResumedRunBeginsWithItsFirstStep) {
  const std::vector<std::string> flags{"--set", "train.log.tensorboard=true"};
  const auto files = [&] {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path() + "/tb/ckpt/quick")) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
        paths.push_back(entry.path());
      }
    }
    return paths;
  };
  // A record has its length (8 bytes), a checksum of the length (4), and the event: wall time (9 bytes), step (2),
  // session_log.
  const auto second_record = [](const std::string& path) {
    const std::string bytes = xrun::testing::read_file(path);
    const auto length = static_cast<size_t>(static_cast<unsigned char>(bytes.at(0)));
    const size_t second = 8 + 4 + length + 4;
    return bytes.substr(second + 8 + 4 + 9, 6);
  };
  auto first = flags;
  first.insert(first.end(), {"--steps", "25"});
  train("tb", first);
  const auto before = files();
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(second_record(before[0]), std::string("\x10\x01\x3a\x02\x08\x01", 6));
  train("tb", flags);
  for (const std::string& path : files()) {
    if (path != before[0]) {
      EXPECT_EQ(second_record(path), std::string("\x10\x1a\x3a\x02\x08\x01", 6)) << "step 26";
    }
  }
}

}  // namespace
