// Case 15: the times in `steps` are counted from the start of the run, and a time that is never reached is rejected.
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <utility>

#include "graph/base/xxh128.h"
#include "tests/support/command.h"

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using xrun::testing::read_file;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Writes a manifest with a valid digest of its text.
std::string signed_again(nlohmann::ordered_json manifest) {
  const auto text_of = [&] { return manifest.dump(1) + "\n"; };
  manifest["digest"] = "";
  const std::string text = text_of();
  manifest["digest"] = xrun::xxh128(std::as_bytes(std::span(text)));
  return text_of();
}

// Returns the text of a model with ten steps per epoch. `more` holds lines of `train`.
std::string model_of(const std::string& length, const std::string& lr, const std::string& batch = "16") {
  return fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, 8]

  logits = x -> linear(4)
  output logits
}}

data d {{
  source train = synthetic([8], 4, 160)
  source test  = synthetic([8], 4, 16, seed=2)

  x = pixels
}}

train t {{
  batch     = {}
  {}
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = {}
  metrics   = [accuracy(logits, label)]
  log {{ every = 1 step }}
}}
)",
                     batch, length, lr);
}

class Case15MilestonesAfterAWarmUp : public testing::Test {
 protected:
  auto run(std::vector<std::string> words) { return run_xrun(words, {.directory = directory.path()}); }
  std::string refusal_of(const std::string& text, const std::string& command = "check") {
    directory.write("m.xgraph", text);
    const auto result = run({command, "m.xgraph"});
    EXPECT_NE(result.exit, 0) << result.out;
    return result.err + result.out;
  }
  // Returns the steps after which the learning rate changes, each with the new rate.
  std::vector<std::pair<int, double>> falls_of(const std::string& text) {
    directory.write("m.xgraph", text);
    const auto result = run({"train", "m.xgraph", "-C", fmt::format("run{}", ++runs_), "--progress", "json",
                             "--devices", "1", "--threads", "1"});
    EXPECT_EQ(result.exit, 0) << result.err;
    std::vector<std::pair<int, double>> falls;
    double before = NAN;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == "step") {
        const double rate = event.at("lr");
        if (rate < before) {
          falls.emplace_back(event.at("step").get<int>() - 1, std::round(rate * 1e9) / 1e9);
        }
        before = rate;
      }
    }
    return falls;
  }
  // Returns the directory of the newest checkpoint.
  std::string latest_step() const {
    const std::string name = read_file(directory.path() + "/ckpt/t/latest");
    return "ckpt/t/" + name.substr(0, name.find('\n'));
  }
  TemporaryDirectory directory;

 private:
  int runs_ = 0;
};

TEST_F(Case15MilestonesAfterAWarmUp, RatesFallAtEpochsFromTheStartOfTheRun) {
  EXPECT_THAT(falls_of(model_of("epochs = 20",
                                "[warmup(0 .. 0.1, 2 epochs), steps(0.1, at=[10 epochs, 16 epochs, 19 epochs])]")),
              ElementsAre(Pair(100, 0.01), Pair(160, 0.001), Pair(190, 0.0001)));
}

TEST_F(Case15MilestonesAfterAWarmUp, UnitsMayBeMixedAndSeveralCurvesMayPrecedeTheSteps) {
  EXPECT_THAT(
      falls_of(model_of("epochs = 4",
                        "[warmup(0 .. 0.1, 5 steps), constant(0.1, 1 epoch), steps(0.1, at=[25 steps, 3 epochs])]")),
      ElementsAre(Pair(25, 0.01), Pair(30, 0.001)));
  EXPECT_THAT(
      falls_of(model_of("epochs = 4", "[warmup(0 .. 0.1, 160 samples), steps(0.1, at=[320 samples, 35 steps])]")),
      ElementsAre(Pair(20, 0.01), Pair(35, 0.001)));
  EXPECT_THAT(falls_of(model_of("epochs = 2", "steps(0.1, at=[1 epoch])")), ElementsAre(Pair(10, 0.01)));
}

TEST_F(Case15MilestonesAfterAWarmUp, TimesCountFromTheStartAlsoIfTheBatchGrows) {
  const auto falls = falls_of(model_of("epochs = 8", "[warmup(0 .. 0.1, 1 epoch), steps(0.1, at=[4 epochs])]",
                                       "grow(16 .. 32, over=2 epochs, after=1 epoch)"));
  ASSERT_EQ(falls.size(), 1u);
  // The run has 10 steps of 16 samples, then growing steps up to epoch 3, and then steps of 32 samples.
  EXPECT_GT(falls[0].first, 20);
  EXPECT_LT(falls[0].first, 40);
}

TEST_F(Case15MilestonesAfterAWarmUp, ATimeThatIsNeverReachedIsRefusedInEachUnit) {
  const auto with_at = [](const std::string& at) {
    return model_of("epochs = 20", "[warmup(0 .. 0.1, 2 epochs), steps(0.1, at=[" + at + "])]");
  };
  EXPECT_THAT(refusal_of(with_at("10 epochs, 20 epochs")),
              HasSubstr("XG0506]: 20 epochs is not before the end of a run of 20 epochs"));
  for (const char* early : {"1 epoch", "2 epochs"}) {
    EXPECT_THAT(refusal_of(with_at(std::string(early) + ", 10 epochs")),
                AllOf(HasSubstr("XG0506]: "), HasSubstr("is not after the start of `steps`, which is 2 epochs after")))
        << early;
  }
  // Times in other units are checked when the number of samples is known.
  for (const std::string command : {"train", "plan"}) {
    EXPECT_THAT(refusal_of(with_at("200 steps"), command), HasSubstr("XG0506]: 200 steps is never reached")) << command;
    EXPECT_THAT(refusal_of(with_at("3200 samples"), command), HasSubstr("XG0506]: 3200 samples, which is 200 steps, is "
                                                                        "never reached"))
        << command;
    EXPECT_THAT(refusal_of(with_at("19.95 epochs"), command), HasSubstr("the last step of the run begins after 199"));
    EXPECT_THAT(refusal_of(with_at("20 steps"), command),
                HasSubstr("20 steps is not after the start of `steps`, which is 20 steps after the start"));
    EXPECT_THAT(refusal_of(with_at("10 epochs, 50 steps"), command), HasSubstr("the times of `steps` must rise"));
  }
  EXPECT_THAT(refusal_of(model_of("steps = 100", "steps(0.1, at=[10 epochs])"), "plan"), HasSubstr("never reached"));
}

TEST_F(Case15MilestonesAfterAWarmUp, TheFixWritesTheTimeFromTheStartOfTheRun) {
  directory.write("m.xgraph", model_of("epochs = 20", "[warmup(0 .. 0.1, 2 epochs), steps(0.1, at=[1 epoch])]"));
  EXPECT_THAT(run({"check", "m.xgraph"}).err, HasSubstr("at=[3 epochs]"));
}

TEST_F(Case15MilestonesAfterAWarmUp, EarlierCheckpointsResumeOnlyWithExtend) {
  const auto with_at = [](int epoch) {
    return model_of("epochs = 8", fmt::format("[warmup(0 .. 0.1, 2 epochs), steps(0.1, at=[{} epochs])]", epoch));
  };
  const auto train = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"train", "m.xgraph", "--progress", "json", "--devices", "1", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  directory.write("m.xgraph", with_at(6));
  const std::string shown = run({"show", "m.xgraph", "--emit", "checked"}).out;
  const std::string digest = shown.substr(shown.rfind("math ") + 5, 64);
  // Earlier versions counted from the end of the warm-up: epoch 4 after a warm-up of 2 was epoch 6 of the run, and had
  // the digest that epoch 6 has now.
  directory.write("m.xgraph", with_at(4));
  ASSERT_EQ(train({"--steps", "30"}).exit, 0);
  const std::string latest = latest_step();
  auto manifest = nlohmann::ordered_json::parse(read_file(directory.path() + "/" + latest + "/manifest.json"));
  ASSERT_NE(manifest.at("math_digest"), digest);
  manifest["math_digest"] = digest;
  directory.write(latest + "/manifest.json", signed_again(manifest));

  const auto refused = train({});
  EXPECT_EQ(refused.exit, 1) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("XG0701]"), HasSubstr("was counted from the beginning of the curve"),
                                 HasSubstr("--extend")));
  // With the rate that the run had, it is resumed without `--extend`.
  directory.write("m.xgraph", with_at(6));
  EXPECT_EQ(train({"--steps", "40"}).exit, 0);
  directory.write("m.xgraph", with_at(4));
  EXPECT_EQ(train({}).exit, 1);
  const auto extended = train({"--extend"});
  EXPECT_EQ(extended.exit, 0) << extended.err;
  EXPECT_EQ(train({}).exit, 0) << "from here on it is the run's own";
}

// A checkpoint of an earlier version may hold a text that is now rejected. It can still be used for predictions.
TEST_F(Case15MilestonesAfterAWarmUp, EarlierCheckpointsWhoseTextIsNowRejectedStillPredict) {
  directory.write("m.xgraph", model_of("epochs = 4", "[warmup(0 .. 0.1, 2 epochs), steps(0.1, at=[3 epochs])]"));
  ASSERT_EQ(run({"train", "m.xgraph", "--progress", "none", "--devices", "1", "--threads", "1"}).exit, 0);
  const std::string latest = latest_step();
  const std::string path = directory.path() + "/" + latest;
  std::string text = read_file(path + "/model.json");
  const size_t at = text.find("at=[3 epochs]");
  ASSERT_NE(at, std::string::npos);
  text.replace(at + 4, 1, "1");  // epoch 1 was valid when it was counted from the end of the warm-up
  directory.write(latest + "/model.json", text);
  auto manifest = nlohmann::ordered_json::parse(read_file(path + "/manifest.json"));
  for (auto& file : manifest["files"]) {
    if (file["name"] == "model.json") {
      file["xxh3"] = xrun::xxh128(std::as_bytes(std::span(text)));
    }
  }
  directory.write(latest + "/manifest.json", signed_again(manifest));
  const auto evaluated = run({"eval", "ckpt/t"});
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
}

}  // namespace
