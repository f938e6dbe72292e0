// Settings of groups that apply only to the class weights of a sharded head.
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/settings/group_rules.h"
#include "lang/print_module.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string with_group(const std::string& settings, const std::string& optimizer = "sgd(momentum=0.9)",
                       const std::string& path = "id") {
  std::string text = small_run("  groups {\n    " + path + " {\n" + settings + "    }\n  }\n");
  return replaced(text, "sgd(momentum=0.9)", optimizer);
}

TEST(Rows, FormatsAreStoredPrintedAndPartOfTheMathDigest) {
  const Checked plain(small_run());
  const Checked checked(with_group("      weights = bf16\n      states = bf16\n      untouched = as_is\n"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  const RowRules rules = row_rules(checked.module().train, "id.weight");
  EXPECT_EQ(rules.weights, RowFormat::kBf16);
  EXPECT_EQ(rules.states, RowFormat::kBf16);
  EXPECT_EQ(rules.untouched, Untouched::kAsIs);
  EXPECT_EQ(row_rules(checked.module().train, "embed.weight").weights, RowFormat::kF32);
  EXPECT_NE(checked.module().math_digest, plain.module().math_digest);
  EXPECT_THAT(print_module(checked.module(), checked.file->run),
              HasSubstr("  groups.id.weights = bf16\n  groups.id.states = bf16\n  groups.id.untouched = as_is\n"));
  EXPECT_TRUE(checked.module().not_yet.empty());
}

// Reports of plans propose settings in this form.
TEST(Rows, AFormatCanBeSetInOneLine) {
  const Checked checked(small_run("  groups.id.weights = bf16"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(row_rules(checked.module().train, "id.weight").weights, RowFormat::kBf16);
}

TEST(Rows, SettingsOfTheLongestMatchingPathApply) {
  const Checked checked(
      with_group("      weights = bf16\n      weight_decay = 0.5\n      weight {\n        weights = fp8\n      }\n"));
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_EQ(row_rules(checked.module().train, "id.weight").weights, RowFormat::kFp8);
  EXPECT_EQ(group_rule(checked.module().train, "id.weight", &GroupSpec::weight_decay), 0.5);
}

TEST(Rows, OtherTensorsHaveNoFormats) {
  for (const char* setting : {"weights = bf16", "states = bf16", "untouched = as_is", "rows = memory"}) {
    const Checked checked(with_group("      " + std::string(setting) + "\n", "sgd", "embed"));
    EXPECT_THAT(checked.codes(), ElementsAre("XG0515")) << checked.rendered();
    EXPECT_THAT(checked.rendered(), HasSubstr("`embed` has other tensors"));
    EXPECT_THAT(checked.rendered(), HasSubstr("put it in the group of a head: id"));
  }
}

TEST(Rows, Fp8RowsAreRejectedForOptimizersWithSecondMoments) {
  const Checked checked(with_group("      weights = fp8\n", "adamw"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0515"));
  EXPECT_THAT(checked.rendered(), HasSubstr("class weights in fp8 cannot hold the updates of `adamw`"));
  EXPECT_THAT(Checked(with_group("      weights = bf16\n      states = bf16\n", "adamw")).codes(), ElementsAre());
  EXPECT_THAT(Checked(with_group("      weights = fp8\n      states = bf16\n")).codes(), ElementsAre());
  EXPECT_THAT(Checked(with_group("      states = fp8\n")).codes(), ElementsAre("XG0205"));
}

// Class rows have no trust ratio, so lars updates them like sgd, and lamb like adamw.
TEST(Rows, Fp8RowsAreAcceptedForLarsAndRejectedForLamb) {
  EXPECT_THAT(Checked(with_group("      weights = fp8\n", "lars")).codes(), ElementsAre());
  const Checked checked(with_group("      weights = fp8\n", "lamb"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0515"));
  EXPECT_THAT(checked.rendered(), HasSubstr("not a sum of weight, gradient and states with factors"));
  for (const std::string optimizer : {"lars", "lamb"}) {
    const Checked narrow(with_group("      weights = bf16\n      states = bf16\n", optimizer));
    EXPECT_THAT(narrow.codes(), ElementsAre()) << narrow.rendered();
  }
}

TEST(Rows, ExactRequiresPlainMomentumInF32AndSomeActiveClasses) {
  for (const auto& [optimizer, settings, why] : std::vector<std::array<std::string, 3>>{
           {"adamw", "", "take sgd(momentum=0.9)"},
           {"lars", "", "take sgd(momentum=0.9)"},
           {"lamb", "", "take sgd(momentum=0.9)"},
           {"sgd", "", "give sgd a momentum"},
           {"sgd(momentum=0.99999)", "", "take a momentum above 0 and at most 0.9999"},
           {"sgd(momentum=0.9, weight_decay=1e-4)", "", "set weight_decay = 0 in the group"},
           {"sgd(momentum=0.9)", "      weight_decay = 1e-4\n", "set weight_decay = 0 in the group"},
           {"sgd(momentum=0.9)", "      states = bf16\n", "leave `states` at f32"},
           {"sgd(momentum=0.9)", "      weights = fp8\n      states = bf16\n", "leave `states` at f32"},
           {"sgd(momentum=0.9)", "", "choose some of the classes"},
           {"sgd(momentum=0.9, weight_decay=1e-4)", "      weight_decay = 0\n", "choose some of the classes"},
       }) {
    const Checked checked(with_group("      untouched = exact\n" + settings, optimizer));
    EXPECT_THAT(checked.codes(), ElementsAre("XG0515")) << optimizer << settings;
    EXPECT_THAT(checked.rendered(), HasSubstr(why));
  }
}

TEST(Rows, ExactNeedsUpdatesInAllSteps) {
  for (const std::string precision : {"mixed(f16)", "mixed(f16, loss_scale=512)"}) {
    std::string text = with_group("      untouched = exact\n");
    text =
        replaced(text, "  optimizer", "  active_classes = sample(60%)\n  precision = " + precision + "\n  optimizer");
    const Checked checked(replaced(text, "10 in 2 .. 1000", "1000 in 2 .. 1000"));
    if (precision == "mixed(f16)") {
      EXPECT_THAT(checked.codes(), ElementsAre("XG0515"));
      EXPECT_THAT(checked.rendered(), HasSubstr("a dynamic scale of the loss skips some"));
    } else {
      EXPECT_THAT(checked.codes(), ElementsAre()) << checked.rendered();
    }
  }
}

TEST(Rows, ExactAcceptsAnyOptimizerWithTheRuleOfSgd) {
  const auto with = [](const std::string& momentum, const std::string& sum) {
    const std::string own =
        "optimizer mine(mu = " + momentum +
        ", weight_decay = 0) {\n  state v = 0\n\n  g      = grad + weight_decay * weight\n  v      = " + sum +
        "\n  weight = weight - lr * v\n}\n\n";
    const std::string text = replaced(with_group("      untouched = exact\n", "mine"), "  optimizer",
                                      "  active_classes = sample(60%)\n  optimizer");
    return own + replaced(text, "10 in 2 .. 1000", "1000 in 2 .. 1000");
  };
  EXPECT_THAT(Checked(with("0.5", "mu * v + g")).codes(), ElementsAre());
  const Checked negative(with("-0.5", "mu * v + g"));
  EXPECT_THAT(negative.codes(), ElementsAre("XG0515"));
  EXPECT_THAT(negative.rendered(), HasSubstr("its momentum is negative"));
  const Checked other(with("0.5", "mu * v - g"));
  EXPECT_THAT(other.codes(), ElementsAre("XG0515"));
  EXPECT_THAT(other.rendered(), HasSubstr("its rule is not that of sgd"));
}

TEST(Rows, ExactAcceptsWeightsInEveryFormat) {
  for (const std::string weights : {"f32", "bf16", "fp8"}) {
    std::string text = with_group("      weights = " + weights + "   untouched = exact\n");
    text = replaced(text, "  optimizer", "  active_classes = sample(60%)\n  optimizer");
    text = replaced(text, "10 in 2 .. 1000", "1000 in 2 .. 1000");
    const Checked checked(text);
    EXPECT_THAT(checked.codes(), ElementsAre()) << checked.rendered();
    EXPECT_EQ(row_rules(checked.module().train, "id.weight").untouched, Untouched::kExact);
  }
}

TEST(MathDifference, SettingsOfGroupsAreReportedAsWritten) {
  const Checked then(with_group("      weights = bf16\n      weight_decay = 0.5\n"));
  const Checked now(with_group("      weights = fp8\n      weight_decay = 0.5\n      states = bf16\n"));
  std::vector<std::string> lines;
  for (const MathDifference& one : math_differences(*then.file, *now.file)) {
    lines.push_back(one.what + ": " + one.then + ", " + one.now);
  }
  EXPECT_THAT(lines, ElementsAre("train.groups.id.weights: bf16, fp8", "train.groups.id.states: not set, bf16"));
}

TEST(Rows, MayBeInAFileForLargeHeadsWithActiveClasses) {
  const auto text = [](const std::string& classes, const std::string& settings, const std::string& train) {
    const std::string out = replaced(with_group("      rows = mapped\n" + settings), "10 in 2 .. 1000", classes);
    return replaced(out, "  optimizer", train + "  optimizer");
  };
  const std::string some = "  active_classes = sample(1000)\n";
  const Checked good(text("300_000", "      weights = fp8\n", some));
  EXPECT_THAT(good.codes(), ElementsAre()) << good.rendered();
  const RowRules rules = row_rules(good.module().train, "id.weight");
  EXPECT_EQ(rules.rows, RowPlace::kMapped);
  EXPECT_EQ(rules.weights, RowFormat::kFp8);
  for (const auto& [classes, settings, train, why] : std::vector<std::array<std::string, 4>>{
           {"262_143", "", some, "is for heads of 262 144 classes or more"},
           {"300_000", "", "", "needs active classes"},
           {"300_000", "", "  active_classes = sample(100%)\n", "needs active classes"},
           {"300_000", "      untouched = exact\n", some, "cannot be combined with `untouched = exact`"},
           {"300_000", "", some + "  checkpoint { every = auto }\n",
            "cannot be combined with `checkpoint { every = auto }`"},
           {"300_000", "", some + "  checkpoint { async = true }\n",
            "cannot be combined with `checkpoint { async = true }`"},
           {"300_000", "", some + "  checkpoint { copy = \"/local\" }\n",
            "cannot be combined with `checkpoint { copy }`"},
       }) {
    const Checked checked(text(classes, settings, train));
    EXPECT_THAT(checked.codes(), ElementsAre("XG0515")) << classes << settings << train;
    EXPECT_THAT(checked.rendered(), HasSubstr(why));
    EXPECT_THAT(checked.rendered(), HasSubstr("or write memory"));
  }
}

TEST(MathDifference, ASettingThatOneTextLacksIsReportedAsNotSet) {
  const Checked then(with_group("      weights = bf16\n"));
  const Checked now(small_run());
  const auto differences = math_differences(*then.file, *now.file);
  const auto groups = std::ranges::find(differences, "train.groups.id.weights", &MathDifference::what);
  ASSERT_NE(groups, differences.end());
  EXPECT_EQ(groups->then, "bf16");
  EXPECT_EQ(groups->now, "not set");
}

TEST(MathDifference, AllFrozenPathsAreReported) {
  const Checked then(small_run("  freeze = [embed.weight]"));
  const Checked now(small_run("  freeze = [embed.weight, embed.bias]"));
  const auto from_none = math_differences(*Checked(small_run()).file, *now.file);
  ASSERT_EQ(from_none.size(), 2U) << "the graph tells what is trained, too";
  EXPECT_EQ(from_none[1].what + ": " + from_none[1].then + ", " + from_none[1].now,
            "train.freeze: [], [embed.weight, embed.bias]");
  const auto differences = math_differences(*then.file, *now.file);
  const auto freeze = std::ranges::find(differences, "train.freeze", &MathDifference::what);
  ASSERT_NE(freeze, differences.end());
  EXPECT_EQ(freeze->then, "[embed.weight]");
  EXPECT_EQ(freeze->now, "[embed.weight, embed.bias]");
}

}  // namespace
}  // namespace xrun::lang
