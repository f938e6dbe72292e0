// The setting `active_classes`, which chooses the classes of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Checks a run of 1,000 classes and a batch of 128 with this value of the setting.
Checked with_active(const std::string& value, const std::string& head = "cosine_classifier(feature, classes)") {
  return Checked(
      replaced(replaced(small_run("  active_classes = " + value), "classes: int = 10", "classes: int = 1000"),
               "cosine_classifier(feature, classes)", head));
}

TEST(ActiveClasses, AreAShareOrANumber) {
  const Checked share = with_active("sample(60%)");
  EXPECT_THAT(share.codes(), IsEmpty()) << share.rendered();
  EXPECT_EQ(share.module().train.active_classes.of(1000), 600);
  EXPECT_EQ(with_active("sample(300)").module().train.active_classes.of(1000), 300);
  const Checked all = with_active("all");
  EXPECT_EQ(all.module().train.active_classes.of(1000), 1000);
  EXPECT_EQ(all.module().math_digest, Checked(replaced(small_run(), "int = 10", "int = 1000")).module().math_digest);
}

TEST(ActiveClasses, SettingsOfKnnReachTheModule) {
  const Checked checked = with_active("knn(neighbours=16, active=60%, rebuild=500 steps, log_q=true)");
  EXPECT_THAT(checked.codes(), IsEmpty()) << checked.rendered();
  const ActiveSpec& active = checked.module().train.active_classes;
  EXPECT_EQ(active.kind, ActiveSpec::kKnn);
  EXPECT_EQ(active.neighbours, 16);
  EXPECT_EQ(to_text(active.rebuild), "500 steps");
  EXPECT_TRUE(active.exact);
  EXPECT_EQ(active.probes, 16);
  EXPECT_TRUE(active.log_q);
}

TEST(ActiveClasses, ChangeTheMathDigest) {
  std::set<std::string> digests;
  for (const char* value :
       {"all", "sample(60%)", "sample(30%)", "sample(60%, log_q=true)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps)", "knn(neighbours=17, active=60%, rebuild=1000 steps)",
        "knn(neighbours=16, active=60%, rebuild=2000 steps)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps, exact=false)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps, exact=false, probes=64)"}) {
    digests.insert(with_active(value).module().math_digest);
  }
  EXPECT_EQ(digests.size(), 9u);
}

TEST(ActiveClasses, NumbersOutOfRangeAreRejected) {
  for (const char* value :
       {"sample(0)", "sample(-1%)", "sample(1.5)", "sample(200.5)", "knn(neighbours=0, active=60%, rebuild=1000 steps)",
        "knn(neighbours=5000, active=60%, rebuild=1000 steps)", "knn(neighbours=16, active=0, rebuild=1000 steps)",
        "knn(neighbours=16, active=60%, rebuild=0 steps)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps, exact=false, probes=0)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps, exact=false, probes=5000)",
        "knn(neighbours=16, active=60%, rebuild=1000 steps, probes=32)"}) {
    EXPECT_THAT(with_active(value).codes(), ElementsAre("XG0214")) << value;
  }
  EXPECT_THAT(with_active("knn(neighbours=16, active=60%, rebuild=1)").codes(), ElementsAre("XG0107"));
  EXPECT_THAT(with_active("some(3)").codes(), ElementsAre("XG0205"));
}

TEST(ActiveClasses, TheNumberOneIsRejectedAsAmbiguous) {
  for (const char* value : {"sample(1)", "sample(1.0)", "knn(neighbours=16, active=1, rebuild=1000 steps)"}) {
    const Checked one = with_active(value);
    EXPECT_THAT(one.codes(), ElementsAre("XG0214")) << value;
    EXPECT_THAT(one.rendered(), HasSubstr("a hundredth of the classes is 1%, and all of them are 100%")) << value;
  }
  EXPECT_THAT(with_active("sample(100%)").codes(), IsEmpty());
  EXPECT_THAT(with_active("sample(1 - 0)").codes(), IsEmpty()) << "what is computed is a share, as of an option";
  EXPECT_THAT(with_active("sample(60% * classes)").codes(), IsEmpty());
}

TEST(ActiveClasses, ATooLargeShareIsReportedInPercent) {
  EXPECT_THAT(with_active("sample(101%)").rendered(), HasSubstr("`sample` cannot take 101 % of the classes"));
  EXPECT_THAT(with_active("sample(200%)").rendered(), HasSubstr("`sample` cannot take 200 % of the classes"));
  EXPECT_THAT(with_active("sample(-1%)").rendered(), HasSubstr("`sample` cannot take -1 % of the classes"));
  EXPECT_THAT(with_active("sample(1.5)").rendered(), HasSubstr("`sample` cannot take 1.5 classes"));
}

TEST(ActiveClasses, MissingArgumentsAreReportedTogether) {
  const std::string all = with_active("knn").rendered();
  EXPECT_THAT(all, HasSubstr("`knn` needs `neighbours`, `active` and `rebuild`"));
  EXPECT_THAT(all, HasSubstr("help: give them: knn(neighbours=..., active=..., rebuild=...)"));
  EXPECT_THAT(with_active("knn(active=60%)").rendered(), HasSubstr("`knn` needs `neighbours` and `rebuild`"));
  EXPECT_THAT(with_active("knn(8, 60%)").rendered(), HasSubstr("help: give it: knn(rebuild=...)"));
}

TEST(ActiveClasses, NeighboursAreAWholeNumberOfAtMostAllClasses) {
  const Checked part = with_active("knn(neighbours=8.5, active=60%, rebuild=1000 steps)");
  EXPECT_THAT(part.codes(), ElementsAre("XG0312"));
  EXPECT_THAT(part.rendered(), HasSubstr("help: write 8 or 9"));
  const Checked itself = with_active("knn(neighbours=1, active=60%, rebuild=1000 steps)");
  EXPECT_THAT(itself.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(itself.rendered(), HasSubstr("a list begins with the class itself"));
  EXPECT_THAT(itself.rendered(), HasSubstr("help: write a number of 2 to 4096"));
  EXPECT_THAT(with_active("knn(neighbours=2, active=60%, rebuild=1000 steps)").codes(), IsEmpty());
  const Checked many = with_active("knn(neighbours=1001, active=60%, rebuild=1000 steps)");
  EXPECT_THAT(many.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(many.rendered(), HasSubstr("`neighbours` is 1001, but `id` has 1000 classes"));
  EXPECT_THAT(with_active("knn(neighbours=1000, active=60%, rebuild=1000 steps)").codes(), IsEmpty());
}

TEST(ActiveClasses, FlagsAreTrueOrFalse) {
  for (const auto& [word, flag] : std::vector<std::pair<std::string, std::string>>{{"no", "false"}, {"True", "true"}}) {
    const Checked checked = with_active("knn(neighbours=16, active=60%, rebuild=1000 steps, exact=" + word + ")");
    EXPECT_THAT(checked.codes(), ElementsAre("XG0205")) << word;
    EXPECT_THAT(checked.rendered(), HasSubstr("`exact` of `knn` is true or false, not `" + word + "`"));
    EXPECT_THAT(checked.rendered(), HasSubstr("exact=" + flag + ")"));
  }
}

TEST(ActiveClasses, AMistakeInTheSettingCausesNoOtherReport) {
  const std::string exact = "\n  groups.id.untouched = exact";
  for (const char* value : {"sample", "some(3)", "sample(0)", "knn(neighbours=16, active=60%, rebuild=3)"}) {
    EXPECT_THAT(with_active(value + exact).codes(), SizeIs(1)) << value;
  }
  EXPECT_THAT(with_active("all" + exact).codes(), ElementsAre("XG0515"));
}

TEST(ActiveClasses, ANumberAloneIsRejectedAndSampleIsProposed) {
  const Checked checked = with_active("10%");
  EXPECT_THAT(checked.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(checked.rendered(), HasSubstr("~   active_classes = sample(10%)"));
}

TEST(ActiveClasses, TheFixesOfASpanWithoutAUnitAddEitherUnit) {
  const std::string rendered = with_active("knn(neighbours=16, active=60%, rebuild=3)").rendered();
  EXPECT_THAT(rendered, HasSubstr("rebuild=3 steps)"));
  EXPECT_THAT(rendered, HasSubstr("rebuild=3 epochs)"));
  const std::string part = with_active("knn(neighbours=16, active=60%, rebuild=0.5)").rendered();
  EXPECT_THAT(part, HasSubstr("rebuild=0.5 epochs)"));
  EXPECT_THAT(part, Not(HasSubstr("0.5 steps"))) << "steps are whole";
}

TEST(ActiveClasses, FewerActiveClassesThanLabelsOfABatchAreRejected) {
  const Checked few = with_active("sample(10%)");
  EXPECT_THAT(few.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(few.rendered(),
              HasSubstr("100 of the 1000 classes of `id` are active, but a step of 128 samples may have "
                        "128 labels"));
  EXPECT_THAT(few.rendered(), HasSubstr("help: write a share or a number that makes 128 classes or more"));
}

TEST(ActiveClasses, AreAtMostAllClasses) {
  const Checked many = with_active("sample(1001)");
  EXPECT_THAT(many.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(many.rendered(), HasSubstr("`id` has 1000 classes, not 1001"));
  EXPECT_THAT(with_active("sample(1000)").codes(), IsEmpty());
}

TEST(ActiveClasses, AFirstGraphAfterTheEndOfTheRunIsRejected) {
  const std::string knn = "knn(neighbours=16, active=60%, rebuild=";
  const Checked late = with_active(knn + "2 epochs)\n  epochs = 2");
  EXPECT_THAT(late.codes(), ElementsAre("XG0214"));
  EXPECT_THAT(late.rendered(), HasSubstr("the first graph is built after 2 epochs, when the run of 2 epochs is over"));
  EXPECT_THAT(with_active(knn + "0.5 epochs)\n  epochs = 2").codes(), IsEmpty());
}

TEST(ActiveClasses, GraphsNeedCosines) {
  const Checked inner =
      with_active("knn(neighbours=16, active=60%, rebuild=1000 steps)", "classifier(feature, classes)");
  EXPECT_THAT(inner.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(inner.rendered(), HasSubstr("the logits of `id` are not cosines"));
  EXPECT_THAT(with_active("sample(60%)", "classifier(feature, classes)").codes(), IsEmpty());
}

TEST(ActiveClasses, NeedAHead) {
  std::string text = small_run("  active_classes = sample(60%)");
  text = replaced(text, "head id = cosine_classifier(feature, classes)", "id = feature -> linear(classes)");
  const Checked checked(text);
  EXPECT_THAT(checked.codes(), ElementsAre("XG0205"));
  EXPECT_THAT(checked.rendered(), HasSubstr("selected from a `head`, and the model has none"));
}

}  // namespace
}  // namespace xrun::lang
