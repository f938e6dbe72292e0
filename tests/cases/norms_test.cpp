// Case 11: norms over a single number are reported before training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using xrun::testing::run_xrun;
using xrun::testing::TemporaryDirectory;

// Returns a model over pictures and rows. `train` holds settings of `train`.
std::string model_of(const std::string& layers, const std::string& train, const std::string& input = "6") {
  return fmt::format(R"(xgraph 1

model m {{
  input x: f32[N, {0}]

  logits = x -> {1}
  output logits
}}

data d {{
  source train = synthetic([{0}], 12, 1072)

  x = pixels
}}

train t {{
  {2}
  steps     = 3
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
}}
)",
                     input, layers, train);
}

class Case11BatchNormOfOneSample : public testing::Test {
 protected:
  auto check(const std::string& text) {
    directory.write("m.xgraph", text);
    return run_xrun({"check", "m.xgraph"}, {.directory = directory.path()});
  }
  TemporaryDirectory directory;
};

const std::string kRows = "linear(16) -> bn -> relu -> linear(12)";

TEST_F(Case11BatchNormOfOneSample, IsAnErrorForAnyNumberOfAccumulatedBatches) {
  const auto one = check(model_of(kRows, "batch = 1\n  grad_accumulation = 12"));
  EXPECT_EQ(one.exit, 1);
  EXPECT_THAT(one.err, AllOf(HasSubstr("error[XG0518]"), HasSubstr("its result is its bias"),
                             HasSubstr("write batch = 12 and leave `grad_accumulation` out")));
  EXPECT_THAT(check(model_of(kRows, "batch = 12\n  norm_rows = 1")).err,
              AllOf(HasSubstr("error[XG0518]"), HasSubstr("leave `norm_rows` out")));
  EXPECT_THAT(check(model_of(kRows, "batch = 1")).err, HasSubstr("write batch = 8 or more"));
  EXPECT_EQ(check(model_of(kRows, "batch = 12\n  norm_rows = 4")).exit, 0);
  directory.write("m.xgraph", model_of(kRows, "batch = 1"));
  for (const char* command : {"train", "plan"}) {
    EXPECT_EQ(run_xrun({command, "m.xgraph"}, {.directory = directory.path()}).exit, 1) << command;
  }
}

TEST_F(Case11BatchNormOfOneSample, PositionsOfAnImageCountAsValuesOfTheNorm) {
  const std::string wide = "conv(4, 3) -> bn -> flatten -> linear(12)";
  EXPECT_EQ(check(model_of(wide, "batch = 1", "3, 8, 8")).err, "");
  const std::string last = "conv(4, 3) -> global_avg_pool -> linear(8) -> bn -> linear(12)";
  EXPECT_THAT(check(model_of(last, "batch = 1", "3, 8, 8")).err, HasSubstr("error[XG0518]"));
  const std::string small = "conv(4, 2, stride=2, pad=0) -> bn -> flatten -> linear(12)";
  EXPECT_THAT(check(model_of(small, "batch = 1", "3, 2, 2")).err, HasSubstr("error[XG0518]"));
}

TEST_F(Case11BatchNormOfOneSample, NoMessageProposesGroupsOfOne) {
  const auto prime = check(model_of(kRows, "batch = 67"));
  EXPECT_THAT(prime.err, AllOf(HasSubstr("error[XG0507]"), HasSubstr("norm_rows may be one of 67\n")));
  EXPECT_THAT(check(model_of(kRows, "batch = 12\n  norm_rows = 5")).err,
              HasSubstr("norm_rows may be one of 2, 3, 4, 6, 12\n"));
  EXPECT_THAT(check(model_of("linear(12)", "batch = 12\n  norm_rows = 5")).err,
              HasSubstr("norm_rows may be one of 1, 2, 3, 4, 6, 12\n"));
}

TEST_F(Case11BatchNormOfOneSample, OtherNormsOfOneNumberAreWarnings) {
  const std::string large = "batch = 16";
  for (const char* layers : {"linear(1) -> layer_norm -> linear(12)", "linear(1) -> rms_norm -> linear(12)",
                             "linear(1) -> l2norm -> linear(12)", "linear(1) -> softmax -> linear(12)",
                             "linear(4) -> reshape([N, 1, 4]) -> attention(2) -> flatten -> linear(12)"}) {
    const auto result = check(model_of(layers, large));
    EXPECT_EQ(result.exit, 0) << layers << result.err;
    EXPECT_THAT(result.err, HasSubstr("warning[XG0318]")) << layers;
  }
  EXPECT_THAT(
      check(model_of("conv(4, 2, stride=2, pad=0) -> group_norm(4) -> flatten -> linear(12)", large, "3, 2, 2")).err,
      HasSubstr("warning[XG0318]"));
  EXPECT_EQ(
      check(model_of("conv(4, 2, stride=2, pad=0) -> group_norm(2) -> flatten -> linear(12)", large, "3, 2, 2")).err,
      "");
  EXPECT_EQ(check(model_of("linear(2) -> layer_norm -> linear(12)", large)).err, "");
}

// A loss over one class has a softmax over one number, and a cosine head normalises a feature of one number.
TEST_F(Case11BatchNormOfOneSample, LossesAndHeadsThatNormalizeOneNumberAreWarnings) {
  std::string text = model_of("linear(1)", "batch = 16");
  text.replace(text.find(", 12, 1072"), 10, ", 1, 1072");
  EXPECT_THAT(check(text).err, AllOf(HasSubstr("warning[XG0318]"), HasSubstr("the result is always 0")));
  text = model_of("linear(1)", "batch = 16");
  text.replace(text.find("  output logits\n"), 16, "  output logits\n\n  head id = cosine_classifier(logits, 12)\n");
  text.replace(text.find("softmax_ce(logits"), 17, "softmax_ce(id");
  EXPECT_THAT(check(text).err, AllOf(HasSubstr("warning[XG0318]"), HasSubstr("`cosine_classifier`")));
}

TEST_F(Case11BatchNormOfOneSample, ABlockThatIsCalledOftenIsReportedOnce) {
  std::string text = model_of("unit -> unit -> unit -> linear(12)", "batch = 16");
  text.replace(0, 9, "xgraph 1\n\nblock unit(x: [N, D]) -> [N, 1] {\n  return x -> linear(1) -> layer_norm\n}\n");
  const std::string err = check(text).err;
  EXPECT_EQ(err.find("warning[XG0318]"), err.rfind("warning[XG0318]")) << err;
}

}  // namespace
