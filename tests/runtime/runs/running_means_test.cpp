// `ema`: evaluations and predictions use the running means of the weights. The means are the same for every plan and
// after a stop, and do not change the training.
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command_runs.h"

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

class RunningMeans : public CommandRuns {
 protected:
  void SetUp() override { write_model(kModel); }

  // Returns the classes and the logits of some samples, predicted with a checkpoint of `out`.
  std::string predict(const std::string& out) {
    const CommandResult result = run(
        {"predict", kFile, out + "/ckpt/quick/latest", "--source", "test", "--rows", "0..15", "--scores", "logits"});
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  }
};

const Flags kMean{"--set", "train.ema=0.9"};

TEST_F(RunningMeans, ChangeOnlyPredictions) {
  const std::string plain = weights("plain", {});
  EXPECT_EQ(weights("mean", kMean), plain);
  EXPECT_NE(predict("mean"), predict("plain"));
  // With a decay of almost 0, the mean equals the weight.
  EXPECT_EQ(weights("nothing", {"--set", "train.ema=1e-30"}), plain);
  EXPECT_EQ(predict("nothing"), predict("plain"));
}

TEST_F(RunningMeans, AreTheSameForEveryPlanAndAfterAStop) {
  for (const Flags& rows : std::initializer_list<Flags>{
           {},
           {"--set", "train.precision=mixed(bf16)", "--set", "train.active_classes=sample(25%)", "--set",
            "train.groups.id.weights=bf16", "--set", "train.groups.id.states=bf16"}}) {
    const std::string kind = rows.empty() ? "f32" : "drawn";
    const Flags flags = with(kMean, rows);
    train(kind + "one", with(flags, Flags{"--devices", "1"}));
    const std::string plain = predict(kind + "one");
    for (size_t i = 0; i < plans().size(); ++i) {
      const std::string out = kind + std::to_string(i);
      train(out, with(flags, plans()[i]));
      EXPECT_EQ(predict(out), plain) << kind << ", plan " << i;
    }
    train(kind + "parts", with(flags, Flags{"--steps", "5"}));
    train(kind + "parts", with(flags, plans()[0]));
    EXPECT_EQ(predict(kind + "parts"), plain) << kind;
  }
}

TEST_F(RunningMeans, AreEvaluatedDuringTheRunAndAfterIt) {
  const auto measured = [&](const std::string& out, const Flags& flags) {
    double accuracy = -1;
    for (const nlohmann::json& event : train(out, with(flags, "train.lr=0.05"))) {
      if (event.at("t") == "eval") {
        accuracy = event.at("metrics").begin().value().get<double>();
      }
    }
    return accuracy;
  };
  const double during = measured("mean", kMean);
  EXPECT_NE(during, measured("plain", {}));
  const CommandResult after = run(with({"eval", kFile, "mean/ckpt/quick/latest"}, kMean));
  ASSERT_EQ(after.exit, 0) << after.err;
  EXPECT_THAT(after.out, HasSubstr(fmt::format("{:.2f} %", 100 * during)));
}

TEST_F(RunningMeans, AResumedRunNeedsThemAndANewRunStartsFromThem) {
  train("plain", {"--steps", "5"});
  const CommandResult refused = run(with({"train", kFile, "--deterministic", "-C", "plain"}, kMean));
  EXPECT_EQ(refused.exit, 1) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("XG0701"), HasSubstr("ema")));
  train("mean", with(kMean, Flags{"--steps", "5"}));
  const auto begun = [&](const std::string& from) {
    return weights("from_" + from,
                   {"--steps", "1", "--set", "train.init=checkpoint(\"" + from + "/ckpt/quick/step-000005\")"});
  };
  EXPECT_NE(begun("mean"), begun("plain"));
}

// The plan's size of a save equals the size of the files, except for names, digests and the text of the model.
TEST_F(RunningMeans, AreCountedInThePlannedSizeOfASave) {
  const Flags flags = with(kMean, Flags{"--devices", "2", "--set", "schedule.replicas=2"});
  const CommandResult planned = run(with({"plan", kFile, "--format", "json"}, flags));
  ASSERT_EQ(planned.exit, 0) << planned.err;
  const int64_t told = nlohmann::json::parse(planned.out).at("run_memory").at("save_by_node").at(0);
  train("out", with(flags, Flags{"--steps", "1"}));
  int64_t written = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory.path() + "/out/ckpt/quick/step-000001")) {
    written += file.path().extension() == ".safetensors" ? static_cast<int64_t>(file.file_size()) : 0;
  }
  EXPECT_GT(told, 10000);
  EXPECT_GE(written, told);
  EXPECT_LT(written, told + 20000);
}

TEST_F(RunningMeans, AreInThePlannedMemoryAndRefusedIfUnsupported) {
  const auto states = [&](const Flags& flags) {
    const CommandResult planned = run(with({"plan", kFile, "--devices", "1", "--format", "json"}, flags));
    EXPECT_EQ(planned.exit, 0) << planned.err;
    return nlohmann::json::parse(planned.out).at("memory").at(1).at("parts").at("optimizer states").get<int64_t>();
  };
  EXPECT_EQ(2 * states(kMean), 3 * states({})) << "adamw has two states";
  const CommandResult exact =
      run(with({"plan", kFile, "--set", "train.active_classes=sample(25%)", "--set",
                "train.optimizer=sgd(momentum=0.9)", "--set", "train.groups.id.untouched=exact"},
               kMean));
  EXPECT_EQ(exact.exit, 1);
  EXPECT_THAT(exact.err, HasSubstr("XG0199"));
  const CommandResult one = run({"check", kFile, "--set", "train.ema=1"});
  EXPECT_EQ(one.exit, 1);
  EXPECT_THAT(one.err, HasSubstr("XG0214"));
}

}  // namespace
}  // namespace xrun::testing
