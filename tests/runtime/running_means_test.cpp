// `ema`: evaluations and predictions use the running means of the weights, which are the same for every plan and after
// a stop, and which change nothing of the training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModel = R"(xgraph 1

model net {
  input x: f32[N, 16]

  feature = x -> linear(32) -> bn -> relu -> linear(24)
  output feature

  head id = classifier(feature, 600)
}

data made {
  source train = synthetic([16], 600, 640)
  source test  = synthetic([16], 600, 320, seed=2)

  x = pixels
}

train quick {
  batch     = 64
  steps     = 12
  norm_rows = 8
  loss      = softmax_ce(id, label)
  optimizer = adamw
  lr        = 0.01
  eval {
    every    = 12 steps
    accuracy = accuracy(id, label, source=train)
  }
}
)";

using Flags = std::vector<std::string>;

class RunningMeans : public ::testing::Test {
 protected:
  void SetUp() override { directory_.write("net.xgraph", kModel); }

  CommandResult run(Flags flags) {
    CommandOptions options;
    options.directory = directory_.path();
    return run_xrun(flags, options);
  }
  // The events of a training into the directory `out`.
  std::vector<nlohmann::json> train(const std::string& out, Flags flags) {
    const Flags words{"train", "net.xgraph", "--deterministic", "--progress", "json", "-C", out};
    flags.insert(flags.begin(), words.begin(), words.end());
    const CommandResult result = run(flags);
    EXPECT_EQ(result.exit, 0) << result.err << result.out;
    std::vector<nlohmann::json> events;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      events.push_back(nlohmann::json::parse(line));
    }
    return events;
  }
  static std::string digest(const std::vector<nlohmann::json>& events) { return events.back().value("weights", ""); }
  // The classes of some samples by a checkpoint of `out`, and their logits.
  std::string predict(const std::string& out) {
    const CommandResult result = run({"predict", "net.xgraph", out + "/ckpt/quick/latest", "--source", "test", "--rows",
                                      "0..15", "--scores", "logits"});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  }
  TemporaryDirectory directory_;
};

Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

const Flags kMean{"--set", "train.ema=0.9"};

TEST_F(RunningMeans, ChangePredictionsAndNotTheTraining) {
  const std::string plain = digest(train("plain", {}));
  EXPECT_EQ(digest(train("mean", kMean)), plain);
  EXPECT_NE(predict("mean"), predict("plain"));
  // A mean that keeps nothing is the weight.
  EXPECT_EQ(digest(train("nothing", {"--set", "train.ema=1e-30"})), plain);
  EXPECT_EQ(predict("nothing"), predict("plain"));
}

TEST_F(RunningMeans, AreTheSameForEveryPlanAndAfterAStop) {
  for (const Flags& rows : std::initializer_list<Flags>{
           {},
           {"--set", "train.precision=mixed(bf16)", "--set", "train.active_classes=sample(25%)", "--set",
            "train.groups.id.weights=bf16", "--set", "train.groups.id.states=bf16"}}) {
    const std::string kind = rows.empty() ? "f32" : "drawn";
    const Flags flags = with(kMean, rows);
    train(kind + "one", with(flags, {"--devices", "1"}));
    const std::string plain = predict(kind + "one");
    const std::vector<Flags> plans{
        {"--devices", "2", "--set", "schedule.stages=2", "--set", "schedule.micro_batches=4"},
        {"--devices", "4", "--set", "schedule.replicas=2", "--set", "schedule.stages=1", "--threads", "5"}};
    for (size_t i = 0; i < plans.size(); ++i) {
      const std::string out = kind + std::to_string(i);
      train(out, with(flags, plans[i]));
      EXPECT_EQ(predict(out), plain) << kind << ", plan " << i;
    }
    train(kind + "parts", with(flags, {"--steps", "5"}));
    train(kind + "parts", with(flags, plans[0]));
    EXPECT_EQ(predict(kind + "parts"), plain) << kind;
  }
}

TEST_F(RunningMeans, AreWhatAnEvaluationMeasuresDuringTheRunAndAfterIt) {
  const auto measured = [&](const std::string& out, const Flags& flags) {
    double accuracy = -1;
    for (const nlohmann::json& event : train(out, with(flags, {"--set", "train.lr=0.05"}))) {
      if (event.at("t") == "eval") {
        accuracy = event.at("metrics").begin().value().get<double>();
      }
    }
    return accuracy;
  };
  const double during = measured("mean", kMean);
  EXPECT_NE(during, measured("plain", {}));
  const CommandResult after = run(with({"eval", "net.xgraph", "mean/ckpt/quick/latest"}, kMean));
  ASSERT_EQ(after.exit, 0) << after.err;
  EXPECT_THAT(after.out, HasSubstr(fmt::format("{:.2f} %", 100 * during)));
}

TEST_F(RunningMeans, ARunThatGoesOnNeedsThemAndOneThatBeginsTakesThem) {
  train("plain", {"--steps", "5"});
  const CommandResult refused = run(with({"train", "net.xgraph", "--deterministic", "-C", "plain"}, kMean));
  EXPECT_EQ(refused.exit, 1) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("XG0701"), HasSubstr("ema")));
  train("mean", with(kMean, {"--steps", "5"}));
  const auto begun = [&](const std::string& from) {
    return digest(train("from_" + from,
                        {"--steps", "1", "--set", "train.init=checkpoint(\"" + from + "/ckpt/quick/step-000005\")"}));
  };
  EXPECT_NE(begun("mean"), begun("plain"));
}

TEST_F(RunningMeans, ArePlannedAndRefusedWhereTheyCannotBe) {
  const auto states = [&](const Flags& flags) {
    const CommandResult planned = run(with({"plan", "net.xgraph", "--devices", "1", "--format", "json"}, flags));
    EXPECT_EQ(planned.exit, 0) << planned.err;
    return nlohmann::json::parse(planned.out).at("memory").at(1).at("parts").at("optimizer states").get<int64_t>();
  };
  EXPECT_EQ(2 * states(kMean), 3 * states({})) << "adamw has two states";
  const CommandResult exact =
      run(with({"plan", "net.xgraph", "--set", "train.active_classes=sample(25%)", "--set",
                "train.optimizer=sgd(momentum=0.9)", "--set", "train.groups.id.untouched=exact"},
               kMean));
  EXPECT_EQ(exact.exit, 1);
  EXPECT_THAT(exact.err, HasSubstr("XG0199"));
  const CommandResult one = run({"check", "net.xgraph", "--set", "train.ema=1"});
  EXPECT_EQ(one.exit, 1);
  EXPECT_THAT(one.err, HasSubstr("XG0214"));
}

}  // namespace
}  // namespace xrun::testing
