// The setting of a batch that grows during training, and its learning rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lang/checked.h"

namespace xrun::lang {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Checked growing(const std::string& batch, const std::string& settings = "  epochs = 8") {
  return Checked(replaced(small_run(settings), "batch     = 128", "batch     = " + batch));
}

TEST(Growth, HasTheFirstSizeAndTheLast) {
  const Checked checked =
      growing("grow(64 .. 256, over=2 epochs, after=1 epoch)", "  epochs = 8\n  lr = fccs(0.1, 0.01)");
  ASSERT_TRUE(checked.file.has_value()) << checked.rendered();
  EXPECT_THAT(checked.codes(), IsEmpty());
  const TrainSpec& train = checked.module().train;
  ASSERT_TRUE(train.growth.has_value());
  EXPECT_EQ(train.batch, 256);
  EXPECT_EQ(train.unit(), 64);
  EXPECT_EQ(train.accumulated(), 4);
  EXPECT_EQ(train.norm_rows, 4) << "a row block divides the first size: a sixteenth of it, without batch norm";
  ASSERT_EQ(train.lr.size(), 3U);
  EXPECT_EQ(train.lr[0].kind, "warmup");
  EXPECT_EQ(to_text(*train.lr[0].span), "1 epoch");
  EXPECT_EQ(train.lr[1].kind, "constant");
  EXPECT_EQ(to_text(*train.lr[1].span), "2 epochs");
  EXPECT_EQ(train.lr[2].kind, "cosine");
  EXPECT_EQ(train.lr[2].from, 0.1);
  EXPECT_EQ(train.lr[2].to, 0.01);
  EXPECT_FALSE(train.lr[2].span.has_value());
}

TEST(Growth, AGrowthThatBeginsAtOnceHasNoWarmup) {
  const Checked checked = growing("grow(64 .. 128, over=2 epochs)", "  epochs = 8\n  lr = fccs(0.1)");
  EXPECT_THAT(checked.codes(), IsEmpty());
  EXPECT_EQ(checked.module().train.lr.front().kind, "constant") << "nothing is left for a warm-up";
}

TEST(Growth, ChangesTheMathDigest) {
  const auto digest = [](const std::string& batch) { return growing(batch).module().math_digest; };
  const std::string one = digest("grow(64 .. 256, over=2 epochs)");
  EXPECT_EQ(digest("grow(64 .. 4 * 64, over=2 epochs)"), one);
  EXPECT_NE(digest("grow(64 .. 256, over=3 epochs)"), one);
  EXPECT_NE(digest("grow(64 .. 256, over=2 epochs, after=1 epoch)"), one);
  EXPECT_NE(digest("grow(128 .. 256, over=2 epochs)"), one);
  EXPECT_NE(digest("256"), one);
}

TEST(Growth, WrongSizesAreRejectedAndValidSizesProposed) {
  const auto refused = [](const std::string& sizes, const std::string& code, const std::string& message) {
    const Checked checked = growing("grow(" + sizes + ", over=2 epochs)");
    EXPECT_THAT(checked.codes(), ElementsAre(code)) << sizes;
    EXPECT_THAT(checked.rendered(), HasSubstr(message)) << sizes;
  };
  refused("64", "XG0205", "`grow` goes from size to size: a .. b");
  refused("0 .. 64", "XG0214", "write whole numbers of samples of 1 to 1073741824");
  refused("64.5 .. 129", "XG0214", "write whole numbers of samples");
  refused("64 .. 4_294_967_296", "XG0214", "`grow` cannot go");
  refused("64 .. 100", "XG0511", "64 .. 128");
  refused("64 .. 64", "XG0511", "64 .. 128");
  refused("128 .. 64", "XG0511", "128 .. 256");
  refused("64 .. 8192", "XG0511", "write 2 to 64 times the first size");
}

TEST(Growth, SpansInStepsAreRejected) {
  EXPECT_THAT(growing("grow(64 .. 128, over=20 steps)").rendered(), HasSubstr("in epochs or samples, not in steps"));
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", "  steps = 100").codes(), ElementsAre("XG0511"));
  const Checked curve =
      growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  lr = [warmup(0 .. 1, 5 steps), cosine(1 .. 0)]");
  EXPECT_THAT(curve.codes(), ElementsAre("XG0511"));
  EXPECT_THAT(curve.rendered(), HasSubstr("curves are measured in epochs or samples"));
  const std::string compressed = "  epochs = 8\n  compress = topk(1%, warmup=";
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", compressed + "5 steps)").codes(), ElementsAre("XG0511"));
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", compressed + "1 epoch)").codes(), IsEmpty());
  EXPECT_THAT(growing("grow(64 .. 128, over=1000 samples)", "  epochs = 8\n  log { every = 5 steps }").codes(),
              IsEmpty());
}

TEST(Growth, ARunThatEndsBeforeTheGrowthIsRejected) {
  const Checked checked = growing("grow(64 .. 128, over=2 epochs, after=7 epochs)");
  EXPECT_THAT(checked.codes(), ElementsAre("XG0511"));
  EXPECT_THAT(checked.rendered(), HasSubstr("the batch grows for 9 epochs of a run of 8 epochs"));
}

TEST(Growth, GradientAccumulationIsRejected) {
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  grad_accumulation = 2").codes(),
              ElementsAre("XG0511"));
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  grad_accumulation = 1").codes(), IsEmpty());
}

TEST(Growth, ARowBlockDividesTheFirstSize) {
  EXPECT_THAT(growing("grow(64 .. 192, over=1 epoch)", "  epochs = 8\n  norm_rows = 48").codes(),
              ElementsAre("XG0507"));
}

TEST(Fccs, NeedsABatchThatGrows) {
  const Checked checked(small_run("  lr = fccs(0.1)"));
  EXPECT_THAT(checked.codes(), ElementsAre("XG0511"));
  EXPECT_THAT(checked.rendered(), HasSubstr("`fccs` needs a batch that grows, and this one does not"));
}

TEST(Fccs, AllowsNoOtherCurves) {
  const Checked checked =
      growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  lr = [fccs(0.1), cosine(0.1 .. 0)]");
  EXPECT_THAT(checked.codes(), ElementsAre("XG0506"));
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  lr = fccs").codes(), ElementsAre("XG0204"));
  EXPECT_THAT(growing("grow(64 .. 128, over=1 epoch)", "  epochs = 8\n  lr = fccs(-1)").codes(), ElementsAre("XG0214"));
}

}  // namespace
}  // namespace xrun::lang
