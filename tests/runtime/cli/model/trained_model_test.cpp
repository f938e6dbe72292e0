// A checkpoint holds the text of its model. It can be evaluated without the files of the model, and other models are
// recognised.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/command.h"

namespace xrun::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainedModel : public ::testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& words, const std::string& from = "") {
    return run_xrun(words, {.directory = directory.path() + from});
  }
  std::string at(const std::string& name) const { return directory.path() + "/" + name; }
  // The text of a model in two files, with a member for everything that may differ.
  struct Text {
    std::string scale = "1";
    std::string activation = "relu";
    std::string loss = "softmax_ce(logits, label)";
    std::string augment = "random_noise(0.1)";
    std::string test = "synthetic([6], 5, 200, seed=2)";
    std::string rate = "0.1";
  };
  void write(const Text& text) {
    fs::create_directories(at("parts"));
    directory.write(
        "parts/body.xgraph",
        "xgraph 1\n\nblock body(x: [N, D]) -> [N, 12] {\n  return x -> linear(12) -> " + text.activation + "\n}\n");
    directory.write("m.xgraph", R"(xgraph 1

from "parts/body.xgraph" use body
from "std/vision" use mlp

option classes: int = 4

model m {
  input x: f32[N, 6]

  logits = x -> body -> linear(classes)
  output logits
}

data d {
  source train = synthetic([6], 5, 640)
  source test  = )" + text.test + R"(

  x     = pixels -> scale()" + text.scale +
                                    ") -> " + text.augment + R"(
  label = label -> as_index(classes)
}

train t {
  batch     = 32
  norm_rows = 8
  epochs    = 2
  loss      = )" + text.loss + R"(
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = )" + text.rate + "\n}\n");
  }
  void train(const Text& text) {
    write(text);
    const auto trained = run({"train", "m.xgraph", "--set", "classes=5", "--progress", "none"});
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }
  CommandResult eval(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"eval", "m.xgraph", "ckpt/t", "--set", "classes=5"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  TemporaryDirectory directory;
};

TEST_F(TrainedModel, IsEvaluatedFromTheCheckpointAlone) {
  train({});
  const auto with_file = eval();
  ASSERT_EQ(with_file.exit, 0) << with_file.err;
  const std::vector<std::string> rows{"--source", "test", "--rows", "0..5"};
  std::vector<std::string> words{"predict", "m.xgraph", "ckpt/t", "--set", "classes=5"};
  words.insert(words.end(), rows.begin(), rows.end());
  const auto named = run(words);
  ASSERT_EQ(named.exit, 0) << named.err;
  fs::remove(at("m.xgraph"));
  fs::remove_all(at("parts"));
  fs::create_directories(at("elsewhere"));
  for (const std::string path : {"ckpt/t", "ckpt/t/latest", "ckpt/t/step-000040"}) {
    const auto alone = run({"eval", path});
    EXPECT_EQ(alone.exit, 0) << alone.err;
    EXPECT_EQ(alone.out, with_file.out);
  }
  EXPECT_EQ(run({"eval", "../ckpt/t"}, "/elsewhere").out, with_file.out);
  words = {"predict", "../ckpt/t"};
  words.insert(words.end(), rows.begin(), rows.end());
  EXPECT_EQ(run(words, "/elsewhere").out, named.out);
  // Flags are added to the flags that the run had.
  EXPECT_THAT(run({"eval", "ckpt/t", "--set", "data.max_bad=2"}).err, HasSubstr("max_bad"));
}

TEST_F(TrainedModel, IsEvaluatedFromTheCheckpointOfAPlanAlone) {
  write({});
  ASSERT_EQ(run({"plan", "m.xgraph", "--set", "classes=5", "--devices", "2"}).exit, 0);
  ASSERT_EQ(run({"train", "m.xplan", "--progress", "none"}).exit, 0);
  const auto with_plan = run({"eval", "m.xplan", "ckpt/t"});
  ASSERT_EQ(with_plan.exit, 0) << with_plan.err;
  fs::remove(at("m.xgraph"));
  EXPECT_EQ(run({"eval", "ckpt/t"}).out, with_plan.out);
  EXPECT_EQ(run({"eval", "ckpt/t", "--devices", "1"}).out, with_plan.out);
}

TEST_F(TrainedModel, RefusesATextOfAnotherModelAndNamesTheDifference) {
  train({});
  write({.activation = "gelu"});
  const auto gelu = eval();
  EXPECT_EQ(gelu.exit, 1);
  EXPECT_EQ(gelu.out, "");
  EXPECT_THAT(
      gelu.err,
      HasSubstr("error[XG0705]: m.xgraph has another model or prepares its data differently than ckpt/t/step-000040\n"
                "  = note: checkpoint:  body.relu: relu -> f32[N, 12]\n"
                "  = note: here:        body.gelu: gelu -> f32[N, 12]\n"));
  EXPECT_THAT(gelu.err, HasSubstr("or add --anyway"));
  const auto anyway = eval({"--anyway"});
  EXPECT_EQ(anyway.exit, 0) << anyway.err;
  EXPECT_THAT(anyway.out, HasSubstr("test "));
  write({.scale = "2"});
  const auto scale = eval();
  EXPECT_EQ(scale.exit, 1);
  EXPECT_THAT(scale.err, AllOf(HasSubstr("checkpoint:  x: f32[N, 6] = pixels -> scale(k=1.0)"),
                               HasSubstr("here:        x: f32[N, 6] = pixels -> scale(k=2.0)")));
  const std::vector<std::string> predict{"predict",  "m.xgraph", "ckpt/t", "--set", "classes=5",
                                         "--source", "test",     "--rows", "0..2"};
  EXPECT_EQ(run(predict).exit, 1);
  fs::remove_all(at("ckpt/u"));
}

TEST_F(TrainedModel, MayHaveOtherSourcesLossAndTraining) {
  train({});
  for (const Text& other :
       {Text{.loss = "softmax_ce(logits, label, smoothing=0.1)"}, Text{.augment = "random_noise(0.3)"},
        Text{.test = "synthetic([6], 5, 100, seed=3)"}, Text{.rate = "0.2"}}) {
    write(other);
    EXPECT_EQ(eval().exit, 0) << eval().err;
  }
}

TEST_F(TrainedModel, CommandLinesWithoutACheckpointAreRefused) {
  train({});
  const auto none = run({"eval", "m.xgraph"});
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err, HasSubstr("`xrun eval` needs a checkpoint: `m.xgraph` is not one, and no other is named"));
  const auto two = run({"eval", "ckpt/t", "m.xgraph"});
  EXPECT_EQ(two.exit, 2);
  EXPECT_THAT(two.err, HasSubstr("`ckpt/t` is a checkpoint, but `m.xgraph` follows it"));
  EXPECT_EQ(run({"predict", "ckpt/t"}).exit, 2);
}

// If a path is not an ordinary file, this is reported without waiting for data.
TEST_F(TrainedModel, PipesInPlaceOfFilesAreReported) {
  train({});
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"check", "pipe"},
                                                {"plan", "pipe"},
                                                {"show", "pipe"},
                                                {"eval", "pipe", "ckpt/t"},
                                                {"check", "/dev/zero"},
                                                {"eval", "pipe"},
                                                {"train", "pipe.xplan"},
                                                {"predict", "ckpt/t", "pipe"}}) {
    const auto result = run_xrun(words, {.directory = directory.path(), .timeout_s = 20});
    EXPECT_FALSE(result.timed_out) << words[0] << " " << words[1];
    EXPECT_THAT(result.exit, ::testing::AnyOf(1, 2)) << words[0] << " " << words[1] << result.err;
  }
}

}  // namespace
}  // namespace xrun::testing
