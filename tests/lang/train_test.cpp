// Settings of `train` that change what a step does to which weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> frozen(const Checked& checked) {
  std::vector<std::string> names;
  for (const Parameter& parameter : checked.module().graph.params) {
    if (parameter.frozen) {
      names.push_back(parameter.name);
    }
  }
  return names;
}

TEST(Freeze, MarksTheWeightsAtAndBelowItsPaths) {
  const Checked layer(small_run("  freeze = [embed]"));
  ASSERT_TRUE(layer.file.has_value()) << layer.rendered();
  EXPECT_THAT(layer.module().not_yet, IsEmpty());
  EXPECT_THAT(frozen(layer), ElementsAre("embed.weight", "embed.bias"));
  EXPECT_THAT(frozen(Checked(small_run("  freeze = [embed.bias, id]"))), ElementsAre("embed.bias", "id.weight"));
  EXPECT_THAT(frozen(Checked(small_run())), IsEmpty());
}

TEST(Freeze, RefusesToLeaveNothingToTrain) {
  const Checked checked(small_run("  freeze = [embed, id]"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0509"));
}

TEST(Freeze, RefusesWhatHasNoWeights) {
  std::string text = small_run("  freeze = [act]");
  const std::string layer = "linear(4) as embed";
  text.replace(text.find(layer), layer.size(), layer + " -> relu as act");
  const Checked checked(text);
  EXPECT_THAT(checked.codes(), ElementsAre("XG0217"));
  EXPECT_THAT(checked.rendered(), HasSubstr("`act`, which has no weights"));
}

TEST(Accumulation, AnUpdateHasTheSamplesOfAllItsBatches) {
  const Checked checked(small_run("  grad_accumulation = 3\n  norm_rows = 32"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(checked.module().not_yet, IsEmpty());
  EXPECT_EQ(checked.module().train.batch, 3 * 128);
  EXPECT_EQ(checked.module().train.grad_accumulation, 3);
  // Row blocks lie inside each of the batches.
  EXPECT_THAT(Checked(small_run("  grad_accumulation = 3\n  norm_rows = 48")).codes(), ElementsAre("XG0507"));
}

TEST(Init, KeepsThePathAsItIsWritten) {
  const Checked checked(small_run("  init = checkpoint(\"ckpt/first\")"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(checked.module().not_yet, IsEmpty());
  EXPECT_EQ(checked.module().train.init_checkpoint, "ckpt/first");
}

}  // namespace
}  // namespace xrun::lang
