// Settings of `train` that change which weights a step updates, and how.
#include <array>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "lang/print_module.h"
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

// The fix of XG0402 changes the number of classes where the text defines it.
TEST(Classes, FixesChangeTheNumberOfClassesWhereItIsDefined) {
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
  // The number is passed through the parameter of a block.
  const Checked block(
      replaced(replaced(more, "head id = cosine_classifier(feature, classes)", "id = feature -> last(classes)"),
               "model net {", "block last(x: [N, D], many: int) {\n  return x -> linear(many)\n}\n\nmodel net {"));
  EXPECT_THAT(block.rendered(), HasSubstr("option classes: int = 12 in 2 .. 1000"));
  // The data has fewer labels than the head has classes. A metric on the same label adds no second report.
  const Checked fewer(replaced(small_run("  metrics = [accuracy(id, label)]"), "synthetic([8], classes, samples=1000)",
                               "synthetic([8], 7, samples=1000)"));
  EXPECT_THAT(fewer.codes(), ElementsAre("XG0302"));
  EXPECT_THAT(fewer.rendered(), HasSubstr("option classes: int = 7 in 2 .. 1000"));
}

TEST(Classes, TheModuleRecordsWhereTheirNumberIsDefined) {
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

TEST(Freeze, FreezingAllWeightsIsRejected) {
  const Checked checked(small_run("  freeze = [embed, id]"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0509"));
}

TEST(Freeze, APathWithoutWeightsIsRejected) {
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
  // Each accumulated batch must consist of whole row blocks.
  EXPECT_THAT(Checked(small_run("  grad_accumulation = 3\n  norm_rows = 48")).codes(), ElementsAre("XG0507"));
}

TEST(Init, KeepsThePathAsItIsWritten) {
  const Checked checked(small_run("  init = checkpoint(\"ckpt/first\")"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(checked.module().not_yet, IsEmpty());
  EXPECT_EQ(checked.module().train.init_checkpoint, "ckpt/first");
}

TEST(ClassSettings, AreReadTogetherWithTheInputOfTheirLabels) {
  const Checked balanced(small_run("  order = balanced"));
  ASSERT_TRUE(balanced.file.has_value()) << balanced.rendered();
  EXPECT_EQ(balanced.module().train.order, SampleOrder::kBalanced);
  EXPECT_EQ(balanced.module().train.class_input, "label");
  const Checked inverse(small_run("  class_weights = inverse_frequency"));
  EXPECT_EQ(inverse.module().train.class_weights.kind, ClassWeightsSpec::kInverseFrequency);
  EXPECT_EQ(inverse.module().train.class_input, "label");
  const Checked csv(small_run("  class_weights = csv(\"a/w.csv\")"));
  EXPECT_EQ(csv.module().train.class_weights.kind, ClassWeightsSpec::kCsv);
  EXPECT_EQ(csv.module().train.class_weights.path, "a/w.csv");
  EXPECT_EQ(Checked(small_run()).module().train.class_input, "");
}

TEST(ClassSettings, ChangeTheMathDigestAndTheirDefaultsDoNot) {
  const std::string none = Checked(small_run()).module().math_digest;
  EXPECT_EQ(Checked(small_run("  class_weights = none\n  order = shuffled")).module().math_digest, none);
  std::set<std::string> digests{none};
  for (const char* settings : {"order = balanced", "order = sequential", "class_weights = inverse_frequency",
                               "class_weights = csv(\"v.csv\")", "class_weights = csv(\"w.csv\")"}) {
    EXPECT_TRUE(digests.insert(Checked(small_run(fmt::format("  {}", settings))).module().math_digest).second)
        << settings;
  }
  // The path of the file is not part of the digest, just as with `init`.
  EXPECT_FALSE(digests.insert(Checked(small_run("  class_weights = csv(\"a/w.csv\")")).module().math_digest).second);
}

TEST(ClassSettings, UnknownWordsAreRejectedWithTheValidChoices) {
  const Checked near(small_run("  class_weights = inverse_frequenzy"));
  EXPECT_THAT(near.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(near.rendered(), HasSubstr("`class_weights` is one of none, inverse_frequency, csv"));
  EXPECT_THAT(near.rendered(), HasSubstr("~   class_weights = inverse_frequency\n"));
  const Checked file(small_run("  class_weights = \"w.csv\""));
  EXPECT_THAT(file.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(Checked(small_run("  class_weights = csv")).codes(), ElementsAre("XG0204"));
  EXPECT_THAT(Checked(small_run("  class_weights = csv(3)")).codes(), ElementsAre("XG0205"));
  EXPECT_THAT(Checked(small_run("  class_weights = csv(\"\")")).codes(), ElementsAre("XG0214"));
  EXPECT_THAT(Checked(small_run("  class_weights = inverse_frequency(2)")).codes(), ElementsAre("XG0204"));
  const Checked order(small_run("  order = balance"));
  EXPECT_THAT(order.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(order.rendered(), HasSubstr("`order` is one of shuffled, sequential, balanced"));
  EXPECT_THAT(order.rendered(), HasSubstr("~   order = balanced\n"));
}

TEST(ClassSettings, ALossWithoutLabelsIsRejected) {
  const auto text = [](const std::string& settings) {
    return "model m {\n  input x: f32[N, 4]\n  y = x -> linear(4)\n  output y\n}\n"
           "data d {\n  source train = synthetic([4], 3, samples=60)\n  x = pixels\n}\n"
           "train t {\n  batch = 8\n  epochs = 1\n  loss = topk(y, 2)\n  optimizer = sgd\n  lr = "
           "0.1\n" +
           settings + "}\n";
  };
  const Checked plain(text(""));
  ASSERT_THAT(plain.codes(), IsEmpty()) << plain.rendered();
  const Checked order(text("  order = balanced\n"));
  EXPECT_THAT(order.codes(), ElementsAre("XG0510"));
  EXPECT_THAT(order.rendered(), HasSubstr("`order = balanced` needs to know the class of each sample"));
  EXPECT_THAT(order.rendered(), HasSubstr("the loss compares with no class numbers"));
  EXPECT_THAT(order.rendered(), HasSubstr("take a loss with labels: softmax_ce(logits, label)"));
  EXPECT_THAT(Checked(text("  class_weights = inverse_frequency\n")).codes(), ElementsAre("XG0510"));
}

TEST(ClassSettings, ALossWithTwoKindsOfLabelsIsRejected) {
  const Checked two(
      "model m {\n  input x: f32[N, 4]\n  a = x -> linear(3)\n  b = x -> linear(3)\n  output a, b\n}\n"
      "data d {\n  source train = csv(\"t.csv\")\n  x = columns(0..4)\n  one = column(4) -> as_index(3)\n"
      "  two = column(5) -> as_index(3)\n}\n"
      "train t {\n  batch = 8\n  epochs = 1\n  loss = softmax_ce(a, one) + softmax_ce(b, two)\n  optimizer = sgd\n"
      "  lr = 0.1\n  class_weights = inverse_frequency\n}\n");
  EXPECT_THAT(two.codes(), ElementsAre("XG0510"));
  EXPECT_THAT(two.rendered(), HasSubstr("the loss compares with `one`, `two`"));
}

TEST(Precision, F16HasADynamicScaleUnlessTheTextGivesOne) {
  struct Case {
    const char* setting;
    PrecisionMode precision;
    LossScaleSpec::Kind kind;
    double first;
    const char* printed;
  };
  for (const Case& c :
       {Case{"f32", PrecisionMode::kF32, LossScaleSpec::kNone, 65536, "f32"},
        Case{"mixed(bf16)", PrecisionMode::kMixedBf16, LossScaleSpec::kNone, 65536, "mixed(bf16)"},
        Case{"mixed(bf16, loss_scale=none)", PrecisionMode::kMixedBf16, LossScaleSpec::kNone, 65536, "mixed(bf16)"},
        Case{"mixed(bf16, loss_scale=usual)", PrecisionMode::kMixedBf16, LossScaleSpec::kNone, 65536, "mixed(bf16)"},
        Case{"mixed(f16)", PrecisionMode::kMixedF16, LossScaleSpec::kDynamic, 65536, "mixed(f16, loss_scale=dynamic)"},
        Case{"mixed(f16, loss_scale=dynamic)", PrecisionMode::kMixedF16, LossScaleSpec::kDynamic, 65536,
             "mixed(f16, loss_scale=dynamic)"},
        Case{"mixed(f16, loss_scale=none)", PrecisionMode::kMixedF16, LossScaleSpec::kFixed, 1,
             "mixed(f16, loss_scale=1)"},
        Case{"mixed(f16, 4_096)", PrecisionMode::kMixedF16, LossScaleSpec::kFixed, 4096,
             "mixed(f16, loss_scale=4096)"}}) {
    const Checked checked(small_run(std::string("  precision = ") + c.setting + "\n"));
    ASSERT_TRUE(checked.file.has_value()) << c.setting << "\n" << checked.rendered();
    const TrainSpec& train = checked.module().train;
    EXPECT_EQ(train.precision, c.precision) << c.setting;
    EXPECT_EQ(train.loss_scale.kind, c.kind) << c.setting;
    EXPECT_EQ(train.loss_scale.first, c.first) << c.setting;
    EXPECT_THAT(print_module(checked.module()), HasSubstr(fmt::format("precision = {}\n", c.printed)));
  }
}

TEST(Precision, ScalesThatAreNotPowersOfTwoAreRejectedWithTheNearestOne) {
  for (const auto& [scale, code, fix] :
       std::vector<std::array<std::string, 3>>{{"1000", "XG0214", "loss_scale=1024)"},
                                               {"0", "XG0214", "loss_scale=1)"},
                                               {"0.5", "XG0214", "loss_scale=1)"},
                                               {"1e30", "XG0214", "loss_scale=4294967296)"},
                                               {"static", "XG0205", "loss_scale=dynamic)"},
                                               {"\"big\"", "XG0205", "loss_scale=dynamic)"}}) {
    const Checked checked(small_run("  precision = mixed(f16, loss_scale=" + scale + ")\n"));
    EXPECT_THAT(checked.codes(), ElementsAre(code)) << scale;
    EXPECT_THAT(checked.rendered(), HasSubstr(fix)) << scale;
  }
}

TEST(Precision, InputsOfF16NeedAScaleOfTheLoss) {
  const std::string text = replaced(small_run("  precision = PRECISION\n"), "input x: f32[N, 8]", "input x: f16[N, 8]");
  EXPECT_THAT(Checked(replaced(text, "PRECISION", "mixed(f16)")).codes(), IsEmpty());
  for (const std::string precision : {"f32", "mixed(bf16)"}) {
    EXPECT_THAT(Checked(replaced(text, "PRECISION", precision)).codes(), ElementsAre("XG0304")) << precision;
  }
}

}  // namespace
}  // namespace xrun::lang
