// The metric `verification`: its source, its feature, its folds, and the bindings that a source of pairs shares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/layouts/verification_spec.h"
#include "ops/catalog.h"
#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A network of pictures whose evaluation has these metrics.
Checked with_metrics(const std::string& metrics, const std::string& train = "recordio(\"train.rec\")",
                     const std::string& field = "jpeg", const std::string& more = "") {
  return Checked(R"(
model face {
  input image: f32[N, 3, 8, 8]

  maps    = image -> conv(4, 3)
  feature = maps -> flatten -> linear(16) -> bn
  output feature

  head id = cosine_classifier(feature, 100)
}

data faces {
  source train = )" + train +
                     R"(
  source lfw   = pairs("lfw.bin")

  image = )" + field +
                     R"( -> decode(8) -> random_flip -> normalize(mean=127.5, std=127.5)
)" + more +
                     R"(}

train t {
  batch     = 64
  epochs    = 1
  loss      = arcface(id, label)
  optimizer = sgd
  lr        = 0.1

  eval {
    )" + metrics +
                     R"(
  }
  checkpoint {
    best = highest(lfw)
  }
  stop_when = lfw >= 99%
}
)",
                 {.ops = &ops::registry()});
}

TEST(LowerVerification, ASourceOfPairsIsVerifiedByAFeature) {
  const Checked made = with_metrics("lfw = verification(lfw, feature, flip=false, folds=5)");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
  const Module& module = made.module();
  ASSERT_EQ(module.train.eval.size(), 1U);
  EXPECT_EQ(module.train.eval[0].name, "lfw");
  EXPECT_EQ(module.train.eval[0].source, "lfw");
  const auto spec = verification_of(module.graph, module.train.eval[0].value);
  ASSERT_TRUE(spec.has_value());
  EXPECT_FALSE(spec->flip);
  EXPECT_EQ(spec->folds, 5);
  EXPECT_TRUE(compares_samples(module.graph, module.train.eval[0]));
}

// Sources of one `data` block share their bindings, but pairs have no labels.
TEST(LowerVerification, ABindingOfTheLabelDoesNotApplyToPairs) {
  const Checked made = with_metrics("lfw = verification(lfw, feature)", "recordio(\"train.rec\")", "jpeg",
                                    "  label = label -> as_index(100)\n");
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
}

TEST(LowerVerification, AFieldThatPairsLackIsReportedIfAMetricReadsIt) {
  // `npy` gives numbers, and its binding does not begin with `decode`.
  const std::string text = R"(
model m {
  input x: f32[N, 8]

  feature = x -> linear(4)
  output feature
  logits = feature -> linear(10)
}

data d {
  source train = npy("x.npy", labels="y.npy", classes=10)
  source lfw   = pairs("lfw.bin")

  x = value
}

train t {
  batch     = 64
  epochs    = 1
  loss      = softmax_ce(logits, label)
  optimizer = sgd
  lr        = 0.1
)";
  const std::string verified = "\n  eval {\n    lfw = verification(lfw, feature)\n  }\n}\n";
  const Checked made(text + verified, {.ops = &ops::registry()});
  EXPECT_THAT(made.codes(), ElementsAre("XG0420")) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr("source `lfw` gives no `x` to measure with"));
  EXPECT_THAT(made.rendered(), HasSubstr("it has no field `value`; its fields are"));
  const Checked other(text + "}\n", {.ops = &ops::registry()});
  EXPECT_THAT(other.codes(), IsEmpty()) << "no metric reads the pairs\n" << other.rendered();
}

TEST(LowerVerification, ALabelOfPairsIsReportedIfAMetricReadsIt) {
  const std::string label = "  label = label -> as_index(100)\n";
  const Checked made = with_metrics("lfw = verification(lfw, feature)\n    seen = accuracy(id, label, source=lfw)",
                                    "recordio(\"train.rec\")", "jpeg", label);
  EXPECT_THAT(made.codes(), ElementsAre("XG0420")) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr("source `lfw` gives no `label` to measure with"));
}

TEST(LowerVerification, PairsCannotBeTheTrainingSourceOfALabel) {
  const Checked made = with_metrics("lfw = verification(lfw, feature)", "pairs(\"train.bin\")", "jpeg",
                                    "  label = label -> as_index(100)\n");
  EXPECT_THAT(made.codes(), ElementsAre("XG0422")) << made.rendered();
}

TEST(LowerVerification, MirrorsPicturesInTenFoldsByDefault) {
  const Checked made = with_metrics("lfw = verification(source=lfw, feature=feature)");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
  const auto spec = verification_of(made.module().graph, made.module().train.eval[0].value);
  EXPECT_TRUE(spec->flip);
  EXPECT_EQ(spec->folds, 10);
}

TEST(LowerVerification, TwoNumbersOfFoldsAreTwoMetrics) {
  const Checked made = with_metrics("lfw = verification(lfw, feature)\n    few = verification(lfw, feature, folds=2)");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  const Module& module = made.module();
  ASSERT_EQ(module.train.eval.size(), 2U);
  EXPECT_EQ(verification_of(module.graph, module.train.eval[0].value)->folds, 10);
  EXPECT_EQ(verification_of(module.graph, module.train.eval[1].value)->folds, 2);
}

TEST(LowerVerification, ASourceWithoutPairsIsRejected) {
  const Checked made = with_metrics("lfw = verification(train, feature)");
  EXPECT_THAT(made.codes(), ElementsAre("XG0420")) << made.rendered();
  EXPECT_THAT(made.rendered(), HasSubstr("source `train` does not say which pairs show one class: it has no `same`"));
  EXPECT_THAT(made.rendered(), HasSubstr("source lfw = pairs(\"lfw.bin\")"));
}

TEST(LowerVerification, AnUnknownOrMissingSourceIsRejected) {
  EXPECT_THAT(with_metrics("lfw = verification(lwf, feature)").codes(), ElementsAre("XG0201"));
  EXPECT_THAT(with_metrics("lfw = verification(none, feature)").codes(), ElementsAre("XG0205"));
  EXPECT_THAT(with_metrics("lfw = verification(feature=feature)").codes(), ElementsAre("XG0204"));
}

TEST(LowerVerification, AFeatureOfAnotherRankIsRejected) {
  const Checked made = with_metrics("lfw = verification(lfw, maps)");
  EXPECT_THAT(made.rendered(), HasSubstr("`feature` of `verification` is [N, D], but gets f32[N, 4, 8, 8]"));
  EXPECT_FALSE(made.file.has_value());
}

TEST(LowerVerification, TemplatesAreASourceOfPairs) {
  const Checked made = with_metrics("lfw = verification(ijbc, feature, folds=1)", "folder(\"faces\")", "file",
                                    "  source ijbc = pairs(\"pairs.txt\", templates=\"t.txt\", root=\"crops\")\n");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
}

TEST(LowerVerification, AnImpossibleNumberOfFoldsIsRejected) {
  for (const char* const folds : {"0", "-3", "1001"}) {
    const Checked made = with_metrics(std::string("lfw = verification(lfw, feature, folds=") + folds + ")");
    EXPECT_THAT(made.rendered(), HasSubstr("`verification` has folds = ")) << folds;
    EXPECT_FALSE(made.file.has_value()) << folds;
  }
}

TEST(LowerVerification, ABindingThatDecodesReadsThePicturesOfPairs) {
  const Checked made = with_metrics("lfw = verification(lfw, feature)", "folder(\"faces\")", "file");
  ASSERT_TRUE(made.file.has_value()) << made.rendered();
  EXPECT_THAT(made.codes(), IsEmpty()) << made.rendered();
}

}  // namespace
}  // namespace xrun::lang
