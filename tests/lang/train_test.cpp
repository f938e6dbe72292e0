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

// XG0402 is fixed at the number of classes, wherever the text says it.
TEST(Classes, AreShownWhereTheTextCountsThem) {
  const std::string more =
      replaced(small_run(), "synthetic([8], classes, samples=1000)", "synthetic([8], 12, samples=1000)");
  const Checked option(more);
  EXPECT_THAT(option.codes(), ElementsAre("XG0402"));
  EXPECT_THAT(option.rendered(), HasSubstr("option classes: int = 12 in 2 .. 1000"));
  const Checked literal(replaced(more, "cosine_classifier(feature, classes)", "cosine_classifier(feature, 11)"));
  EXPECT_THAT(literal.rendered(), HasSubstr("~   head id = cosine_classifier(feature, 12)"));
  const Checked expression(replaced(more, "cosine_classifier(feature, classes)", "cosine_classifier(feature, 2 * 5)"));
  EXPECT_THAT(expression.rendered(), HasSubstr("~   head id = cosine_classifier(feature, 12)"));
  const Checked flag(more, {.sets = {{"classes", "9"}}});
  EXPECT_THAT(flag.rendered(), HasSubstr("--> --set classes:1:1"));
  // Through the parameter of a block.
  const Checked block(
      replaced(replaced(more, "head id = cosine_classifier(feature, classes)", "id = feature -> last(classes)"),
               "model net {", "block last(x: [N, D], many: int) {\n  return x -> linear(many)\n}\n\nmodel net {"));
  EXPECT_THAT(block.rendered(), HasSubstr("option classes: int = 12 in 2 .. 1000"));
  // Fewer labels than the head has classes, and a metric that asks for the same label.
  const Checked fewer(replaced(small_run("  metrics = [accuracy(id, label)]"), "synthetic([8], classes, samples=1000)",
                               "synthetic([8], 7, samples=1000)"));
  EXPECT_THAT(fewer.codes(), ElementsAre("XG0302"));
  EXPECT_THAT(fewer.rendered(), HasSubstr("option classes: int = 7 in 2 .. 1000"));
}

TEST(Classes, TheirPlaceGoesIntoTheModule) {
  const Checked checked(small_run());
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  ASSERT_EQ(checked.module().data.class_counts.size(), 1U);
  EXPECT_EQ(checked.module().data.class_counts[0].input, "label");
  EXPECT_EQ(checked.sources.text(checked.module().data.class_counts[0].span), "10");
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
