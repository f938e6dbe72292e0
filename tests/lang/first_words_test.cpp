// Words of new users: names from other frameworks, and our names used with another meaning. Each gets one message, and
// its fix gives a valid text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string with_loss(const std::string& loss, const std::string& settings = {}) {
  return replaced(small_run(settings), "softmax_ce(id, label, scale=16)", loss);
}

// The number of classes is unknown until the data is opened. The loss must not infer it from a tensor that is not a
// head.
const std::string kOpenLabels = "source train = folder(\"pictures\")\n";

TEST(WordsOfNewUsers, ALossOnCosinesRejectsAFeatureAndProposesTheHead) {
  const Checked checked(with_loss("arcface(feature, label)", "  metrics = [accuracy(id, label)]"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0303")) << checked.rendered();
  EXPECT_THAT(checked.rendered(), HasSubstr("`logits` of `arcface` are the cosines of a head, not f32[N, 4]"));
  EXPECT_THAT(checked.rendered(), HasSubstr("~   loss      = arcface(id, label)\n"));
  EXPECT_THAT(checked.rendered(), Not(HasSubstr("linear(10)")));
}

TEST(WordsOfNewUsers, TheNumberOfClassesIsNotInferredFromAFeature) {
  std::string text = with_loss("cosface(feature, label)", "  metrics = [accuracy(id, label)]");
  text = replaced(text, "source train = synthetic([8], classes, samples=1000)", kOpenLabels);
  text = replaced(text, "  source val   = synthetic([8], classes, samples=100, seed=2)\n", "");
  text = replaced(text, "x = pixels", "x = file -> decode(8)");
  text = replaced(text, "input x: f32[N, 8]", "input x: f32[N, 3, 8, 8]");
  text = replaced(text, "x -> linear(4)", "x -> flatten -> linear(4)");
  const Checked checked(text);
  EXPECT_THAT(checked.codes(), ElementsAre("XG0303")) << checked.rendered();
}

TEST(WordsOfNewUsers, ALossOnCosinesRejectsAHeadWithoutCosines) {
  const Checked checked(replaced(with_loss("arcface(feature, label)"), "cosine_classifier", "classifier"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0303"));
  EXPECT_THAT(checked.rendered(), HasSubstr("give it the result of `cosine_classifier`, or use `softmax_ce`"));
}

TEST(WordsOfNewUsers, ParametersOfBlocksMayBeCosines) {
  const std::string block = "block margin(z: cosines[N, C], label: index(C)[N]) { return arcface(z, label) }\n";
  EXPECT_THAT(Checked(with_loss("margin(id, label)") + block).codes(), IsEmpty());
  EXPECT_THAT(Checked(with_loss("margin(feature, label)") + block).codes(), ElementsAre("XG0303"));
}

TEST(WordsOfNewUsers, LossesOfOtherFrameworksAreTranslated) {
  for (const char* word : {"cross_entropy", "CrossEntropyLoss", "categorical_crossentropy", "nll_loss"}) {
    const Checked checked(with_loss(std::string(word) + "(id, label)"));
    EXPECT_THAT(checked.codes(), ElementsAre("XG0201")) << checked.rendered();
    EXPECT_THAT(checked.rendered(), HasSubstr("there is no loss `" + std::string(word) + "`"));
    EXPECT_THAT(checked.rendered(), HasSubstr("~   loss      = softmax_ce(id, label)\n"));
    EXPECT_THAT(checked.rendered(), Not(HasSubstr("block")));
  }
  const Checked bare(with_loss("cross_entropy"));
  EXPECT_THAT(bare.rendered(), HasSubstr("there is no loss `cross_entropy`"));
  const Checked pipe(with_loss("id -> cross_entropy(label)"));
  EXPECT_THAT(pipe.rendered(), HasSubstr("~   loss      = id -> softmax_ce(label)\n"));
}

TEST(WordsOfNewUsers, ForUnknownLossesTheKnownOnesAreListed) {
  const Checked checked(with_loss("quintuplet(id, label)"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0201"));
  EXPECT_THAT(checked.rendered(), HasSubstr("help: take one of `arcface`, `cosface`, `softmax_ce`"));
}

TEST(WordsOfNewUsers, ForUnknownMetricsTheKnownOnesAreListed) {
  const auto of = [](const std::string& metric) {
    return Checked(small_run("  metrics = [" + metric + "]")).rendered();
  };
  EXPECT_THAT(of("acc(id, label)"), HasSubstr("~   metrics = [accuracy(id, label)]\n"));
  EXPECT_THAT(of("top5(id, label)"), HasSubstr("help: write accuracy(logits, label, k=5)\n"));
  EXPECT_THAT(of("kappa(id, label)"), HasSubstr("help: take one of `accuracy`"));
}

TEST(WordsOfNewUsers, ForUnknownCurvesTheKnownOnesAreListed) {
  const auto of = [](const std::string& rate) {
    const Checked checked(small_run("  lr = " + rate));
    EXPECT_EQ(checked.codes().size(), 1U) << checked.rendered();
    return checked.rendered();
  };
  EXPECT_THAT(of("cosine_decay(0.1 .. 0)"), HasSubstr("~   lr = cosine(0.1 .. 0)\n"));
  EXPECT_THAT(of("linear(0.1 .. 0)"), HasSubstr("there is no curve `linear`"));
  EXPECT_THAT(of("linear(0.1 .. 0)"), HasSubstr("~   lr = poly(0.1 .. 0)\n"));
  EXPECT_THAT(of("CosineAnnealingLR(0.1 .. 0)"), HasSubstr("~   lr = cosine(0.1 .. 0)\n"));
  EXPECT_THAT(of("step(0.1)"), HasSubstr("help: write steps(0.1, at=[5 epochs, 8 epochs])\n"));
  EXPECT_THAT(of("sawtooth(0.1)"), HasSubstr("help: take one of `warmup`, `constant`, `cosine`, `poly`, `steps`"));
  EXPECT_THAT(of("cosine"), HasSubstr("~   lr = cosine(0.1 .. 0)\n"));
  EXPECT_THAT(of("[warmup(0 .. 0.1, 1 epoch), exponential(0.1)]"), HasSubstr("there is no curve `exponential`"));
  // A function in the file may give the rate, whatever its name is.
  EXPECT_THAT(Checked(small_run("  lr = step(8)", "fn step(x: int) = 0.1 / x\n")).codes(), IsEmpty());
  EXPECT_THAT(Checked(small_run("  lr = max(0.1, 0.2)")).codes(), IsEmpty());
}

TEST(WordsOfNewUsers, OptimizersAndLayersOfOtherFrameworksAreTranslated) {
  const auto with = [](const std::string& from, const std::string& to) {
    const Checked checked(replaced(small_run(), from, to));
    EXPECT_EQ(checked.codes().size(), 1U) << checked.rendered();
    return checked.rendered();
  };
  EXPECT_THAT(with("sgd(momentum", "SGD(momentum"), HasSubstr("~   optimizer = sgd(momentum=0.9)\n"));
  EXPECT_THAT(with("sgd(momentum=0.9)", "AdamW"), HasSubstr("~   optimizer = adamw\n"));
  EXPECT_THAT(with("sgd(momentum=0.9)", "adadelta(rho=0.9)"),
              HasSubstr("help: write one of `adabelief`, `adagrad`, `adam`, `adamax`, `adamw`, `lamb`, `lars`"));
  EXPECT_THAT(with("linear(4)", "dense(4)"), HasSubstr("~   feature = x -> linear(4) as embed\n"));
  EXPECT_THAT(with("linear(4)", "linear(4) -> ReLU"), HasSubstr("-> linear(4) -> relu as embed\n"));
}

TEST(WordsOfNewUsers, SetFlagsWithoutTheirDeclarationGetAProposal) {
  EXPECT_EQ(setting_flag("epochs", "3", Nearness::kExact), "--set train.epochs=3");
  EXPECT_EQ(setting_flag("micro_batches", "2", Nearness::kExact), "--set schedule.micro_batches=2");
  EXPECT_EQ(setting_flag("epoch", "3", Nearness::kExact), "");
  EXPECT_EQ(setting_flag("epoch", "3", Nearness::kNear), "--set train.epochs=3");
  EXPECT_EQ(setting_flag("lr", "cosine(0.1 .. 0)", Nearness::kExact), "--set 'train.lr=cosine(0.1 .. 0)'");
  const Checked set(small_run(), {.sets = {{"epochs", "3"}}});
  EXPECT_THAT(set.codes(), ElementsAre("XG0201"));
  EXPECT_THAT(set.rendered(), HasSubstr("help: did you mean `--set train.epochs=3`?"));
  // A similar option of the file is proposed before a similar setting.
  const Checked option(small_run(), {.sets = {{"clases", "3"}}});
  EXPECT_THAT(option.rendered(), HasSubstr("help: did you mean `classes`?"));
}

// `conv(96, 8, stride=8)` on 48 x 48 pixels makes 7 x 7 patches. One row and one column of patches lie half outside.
TEST(WordsOfNewUsers, PaddedPatchesCauseAWarning) {
  const auto of = [](const std::string& call) {
    return Checked("model m {\n  input x: f32[N, 3, 48, 48]\n  y = x -> " + call + "\n  output y\n}\n");
  };
  const Checked patches = of("conv(96, 8, stride=8) as patch");
  EXPECT_THAT(patches.codes(), ElementsAre("XG0308")) << patches.rendered();
  EXPECT_TRUE(patches.file.has_value());
  EXPECT_THAT(patches.rendered(),
              HasSubstr("`conv` with k=8 and stride=8 pads by 4: 48 x 48 becomes 7 x 7, not 6 x 6"));
  EXPECT_THAT(patches.rendered(), HasSubstr("~   y = x -> conv(96, 8, stride=8, pad=0) as patch\n"));
  for (const char* call : {"conv(96, 8, stride=8, pad=0)", "conv(96, 8, stride=8, pad=4)", "conv(96, 7, stride=7)",
                           "conv(96, 8, stride=4)", "conv(96, 1)", "max_pool(2, stride=2)"}) {
    EXPECT_THAT(of(call).codes(), IsEmpty()) << call;
  }
}

}  // namespace
}  // namespace xrun::lang
