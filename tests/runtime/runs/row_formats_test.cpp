// Runs of the command with class weights in bf16 or fp8: that they learn, how they are resumed, and what their
// checkpoints hold.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/base/units.h"
#include "tests/support/command.h"

namespace xrun::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

// A model with 200 classes of 12 numbers and 40 steps per epoch; {} are the settings of the head's group.
constexpr const char* kModel = R"(xgraph 1

option classes: int = 200 in 2 .. 100_000

model m {
  input x: f32[N, 12]

  feature = x -> linear(32) -> relu -> linear(24)
  output feature
  head id = cosine_classifier(feature, classes)
}

data d {
  source train = synthetic([12], classes, 2560)
  source test  = synthetic([12], classes, 400, seed=2)

  x = pixels
}

train t {
  batch     = 64
  norm_rows = 8
  epochs    = 4
  loss      = cosface(id, label, margin=0.1, scale=16)
  optimizer = sgd(momentum=0.9)
  lr        = 0.5
  eval {
    every = 2 epochs
    yen   = accuracy(id, label, source=test)
  }
  checkpoint {
    every = 2 epochs
  }
}
)";

class RowFormats : public ::testing::Test {
 protected:
  void SetUp() override { directory.write("m.xgraph", kModel); }

  CommandResult run(Words words) { return run_xrun(words, {.directory = directory.path()}); }

  // Trains in the directory `to`, with these formats of the head's `weights` and `states`.
  CommandResult train(const std::string& to, const std::string& weights, const std::string& states, Words more = {}) {
    Words words{"train",
                "m.xgraph",
                "--progress",
                "json",
                "--deterministic",
                "-C",
                to,
                "--set",
                "train.groups.id.weights=" + weights,
                "--set",
                "train.groups.id.states=" + states};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(more, "--devices") == more.end()) {
      words.insert(words.end(), {"--devices", "1", "--threads", "1"});
    }
    return run(words);
  }

  static nlohmann::json last(const CommandResult& result, const std::string& kind) {
    nlohmann::json found;
    std::string line;
    for (std::istringstream in(result.out); std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("t") == kind) {
        found = event;
      }
    }
    EXPECT_FALSE(found.is_null()) << "no " << kind << "\n" << result.out << result.err;
    return found;
  }
  static double loss(const CommandResult& result) { return last(result, "step").at("loss").get<double>(); }
  static std::string weights(const CommandResult& result) {
    return last(result, "end").at("weights").get<std::string>();
  }
  static nlohmann::json tensor(const nlohmann::json& page, const std::string& name) {
    for (const auto& one : page.at("tensors")) {
      if (one.at("name") == name) {
        return one;
      }
    }
    return {};
  }

  TemporaryDirectory directory;
};

TEST_F(RowFormats, LearnAlmostAsWellAsRowsInF32) {
  const CommandResult wide = train("f32", "f32", "f32");
  ASSERT_EQ(wide.exit, 0) << wide.err;
  const double accuracy = last(wide, "eval").at("metrics").begin()->get<double>();
  ASSERT_GT(accuracy, 0.5) << "the test has power";
  for (const auto& [format, states, bound] : std::vector<std::tuple<std::string, std::string, double>>{
           {"bf16", "f32", 0.02}, {"bf16", "bf16", 0.02}, {"fp8", "bf16", 0.1}}) {
    const CommandResult narrow = train(format + states, format, states);
    ASSERT_EQ(narrow.exit, 0) << narrow.err;
    EXPECT_NEAR(loss(narrow), loss(wide), bound * loss(wide)) << format << " " << states;
    EXPECT_NEAR(last(narrow, "eval").at("metrics").begin()->get<double>(), accuracy, 0.05) << format << " " << states;
    EXPECT_NE(weights(narrow), weights(wide));
  }
}

// The run is stopped in the middle of an epoch and resumed with other devices and shards.
TEST_F(RowFormats, AStoppedRunResumesWithTheSameBits) {
  for (const auto& [format, states] :
       std::vector<std::pair<std::string, std::string>>{{"bf16", "bf16"}, {"fp8", "bf16"}}) {
    const CommandResult whole = train(format + "1", format, states, {"--steps", "70", "--devices", "1"});
    ASSERT_EQ(whole.exit, 0) << whole.err;
    const CommandResult part = train(format + "2", format, states, {"--steps", "53", "--devices", "2"});
    ASSERT_EQ(part.exit, 0) << part.err;
    const CommandResult rest = train(
        format + "2", format, states,
        {"--steps", "70", "--devices", "3", "--set", "schedule.shard.id.over=3", "--set", "schedule.micro_batches=4"});
    ASSERT_EQ(rest.exit, 0) << rest.err;
    EXPECT_EQ(last(rest, "resume").at("step"), 53);
    EXPECT_EQ(weights(rest), weights(whole)) << format;
    EXPECT_NE(weights(part), weights(whole));
  }
}

TEST_F(RowFormats, CheckpointsHoldTheFormatAndAreEvaluatedInIt) {
  const CommandResult trained = train("fp8", "fp8", "bf16");
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const auto page = nlohmann::json::parse(run({"show", "fp8/ckpt/t/latest", "--format", "json"}).out);
  EXPECT_EQ(tensor(page, "id.weight").at("dtype"), "F8_E4M3");
  EXPECT_EQ(tensor(page, "id.weight.scale").at("dtype"), "F32");
  EXPECT_EQ(tensor(page, "id.weight.scale").at("shape"), nlohmann::json({200}));
  EXPECT_EQ(tensor(page, "id.weight.velocity").at("dtype"), "BF16");
  EXPECT_EQ(tensor(page, "linear.weight").at("dtype"), "F32");
  EXPECT_THAT(run({"show", "fp8/ckpt/t/latest"}).out,
              AllOf(HasSubstr("F8_E4M3 [200, 24]"), HasSubstr("F32     [200]")));
  const CommandResult evaluated = run({"eval", "fp8/ckpt/t/latest", "--format", "json"});
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  const double accuracy = last(trained, "eval").at("metrics").begin()->get<double>();
  EXPECT_THAT(evaluated.out, HasSubstr(nlohmann::json(accuracy).dump()));
  const CommandResult predicted = run({"predict", "fp8/ckpt/t/latest", "--source", "test", "--rows", "0..2"});
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

// A run starts from rows in another format. Converting to a narrower format rounds to the nearest value; converting to
// a wider one is exact.
TEST_F(RowFormats, ARunStartsFromRowsInAnotherFormat) {
  for (const char* format : {"f32", "bf16", "fp8"}) {
    const CommandResult first = train(format, format, "f32");
    ASSERT_EQ(first.exit, 0) << first.err;
    const double accuracy = last(first, "eval").at("metrics").begin()->get<double>();
    for (const char* other : {"f32", "bf16", "fp8"}) {
      // The learning rate is almost 0, so the measurements are those of the loaded weights.
      const std::string to = std::string(format) + "-" + other;
      const CommandResult second =
          train(to, other, "f32",
                {"--set", "train.init=checkpoint(\"" + std::string(format) + "/ckpt/t/latest\")", "--set",
                 "train.lr=1e-30", "--set", "train.eval.every=1 step", "--steps", "1"});
      ASSERT_EQ(second.exit, 0) << second.err;
      const double measured = last(second, "eval").at("metrics").begin()->get<double>();
      const bool exact = std::string(format) == other || std::string(other) == "f32" ||
                         (std::string(format) == "fp8" && std::string(other) == "bf16");
      EXPECT_NEAR(measured, accuracy, exact ? 0 : 0.03) << format << " to " << other;
      EXPECT_THAT(second.out, Not(HasSubstr("XG0813"))) << "the head is not new";
    }
  }
  // A run can be resumed only in its own format.
  const CommandResult refused = train("f32", "bf16", "f32");
  EXPECT_EQ(refused.exit, 1);
  EXPECT_THAT(refused.err + refused.out, HasSubstr("XG0701"));
}

// Uses a plan file, which must also hold the formats.
TEST_F(RowFormats, ARunUsesTheMemoryOfItsPlan) {
  const auto arenas = [&](const std::string& weights, const std::string& states) {
    const CommandResult planned = run({"plan", "m.xgraph", "-o", weights + ".xplan", "--format", "json", "--devices",
                                       "2", "--set", "classes=20000", "--set", "train.groups.id.weights=" + weights,
                                       "--set", "train.groups.id.states=" + states});
    EXPECT_EQ(planned.exit, 0) << planned.err;
    const auto sum = nlohmann::json::parse(planned.out).at("run_memory").at("training").get<Bytes>();
    const CommandResult trained = run({"train", weights + ".xplan", "--steps", "2", "--progress", "json"});
    EXPECT_EQ(trained.exit, 0) << trained.err;
    EXPECT_EQ(last(trained, "end").at("arenas").get<Bytes>(), sum);
    std::filesystem::remove_all(directory.path() + "/ckpt");
    return static_cast<double>(sum);
  };
  constexpr double kElements = 20'000 * 24;
  // The tolerance covers the slices of workers: 128 rows of weights and two states in f32.
  EXPECT_NEAR(arenas("f32", "f32") - arenas("fp8", "bf16"), kElements * (3 + 2) - 20'000 * 4, 100'000);
}

}  // namespace
}  // namespace xrun::testing
