#include "runtime/train/state/loss_scale.h"

#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

constexpr LossScaleSpec kDynamic{.kind = LossScaleSpec::kDynamic};

TEST(LossScale, BeginsAtTheValueOfTheSetting) {
  EXPECT_EQ(first_scale({}), (LossScale{.scale = 1}));
  EXPECT_EQ(first_scale(kDynamic), (LossScale{.scale = 65536}));
  EXPECT_EQ(first_scale({.kind = LossScaleSpec::kFixed, .first = 1024}), (LossScale{.scale = 1024}));
}

TEST(LossScale, DoublesAfterTwoThousandStepsWithoutAnOverflow) {
  LossScale scale = first_scale(kDynamic);
  for (int step = 1; step < kStepsToDouble; ++step) {
    follow_step(kDynamic, false, scale);
    ASSERT_EQ(scale, (LossScale{65536, step, 0}));
  }
  follow_step(kDynamic, false, scale);
  EXPECT_EQ(scale, (LossScale{131072, 0, 0}));
}

TEST(LossScale, HalvesAtAnOverflowAndCountsAgain) {
  LossScale scale = first_scale(kDynamic);
  follow_step(kDynamic, false, scale, 3);
  follow_step(kDynamic, false, scale, 3);
  follow_step(kDynamic, true, scale, 3);
  EXPECT_EQ(scale, (LossScale{32768, 0, 1})) << "two good steps before the overflow no longer count";
  follow_step(kDynamic, true, scale, 3);
  EXPECT_EQ(scale, (LossScale{16384, 0, 2}));
  for (int step = 0; step < 3; ++step) {
    follow_step(kDynamic, false, scale, 3);
  }
  EXPECT_EQ(scale, (LossScale{32768, 0, 2}));
}

TEST(LossScale, StaysWithinItsRange) {
  LossScale scale{.scale = kLargestLossScale};
  follow_step(kDynamic, false, scale, 1);
  EXPECT_EQ(scale.scale, kLargestLossScale);
  scale.scale = 2;
  follow_step(kDynamic, true, scale);
  EXPECT_EQ(scale.scale, 1);
  EXPECT_DEATH(follow_step(kDynamic, true, scale), "skips no step");
}

TEST(LossScale, AFixedScaleNeverChanges) {
  const LossScaleSpec fixed{.kind = LossScaleSpec::kFixed, .first = 1024};
  LossScale scale = first_scale(fixed);
  for (int step = 0; step < 3; ++step) {
    follow_step(fixed, false, scale, 1);
  }
  EXPECT_EQ(scale, (LossScale{.scale = 1024}));
  EXPECT_DEATH(follow_step(fixed, true, scale), "skips no step");
}

TEST(LossScale, ARunThatContinuesKeepsTheCountOfSkippedSteps) {
  const LossScale saved{.scale = 512, .good_steps = 7, .skipped_steps = 5};
  EXPECT_EQ(resumed_scale(kDynamic, saved), saved);
  EXPECT_EQ(resumed_scale({.kind = LossScaleSpec::kFixed, .first = 64}, saved), (LossScale{64, 0, 5}));
  EXPECT_EQ(resumed_scale({}, saved), (LossScale{1, 0, 5})) << "f32: the bias correction still counts updates";
}

TEST(LossScale, OnlyADynamicScaleIsSaved) {
  const LossScale scale{.scale = 512, .good_steps = 7, .skipped_steps = 5};
  const LossScaleSpec fixed{.kind = LossScaleSpec::kFixed, .first = 512};
  EXPECT_EQ(saved_scale(kDynamic, scale), scale);
  EXPECT_EQ(saved_scale(fixed, {.scale = 512}), LossScale()) << "nothing is kept";
  for (const LossScaleSpec& spec : {LossScaleSpec(), fixed}) {
    EXPECT_EQ(resumed_scale(kDynamic, saved_scale(spec, {.scale = 1, .skipped_steps = 5})), (LossScale{65536, 0, 5}))
        << "a dynamic scale must not begin at the 1 of the run before it";
  }
}

TEST(LossScale, ImpossibleValuesAreFound) {
  EXPECT_TRUE(is_possible({.scale = 512, .good_steps = 7, .skipped_steps = 5}, 12));
  for (const LossScale& wrong :
       {LossScale{0, 0, 0}, LossScale{3, 0, 0}, LossScale{0.5, 0, 0}, LossScale{0x1p33, 0, 0}, LossScale{512, -1, 0},
        LossScale{512, 0, -1}, LossScale{512, 0, 13}, LossScale{512, 8, 5}}) {
    EXPECT_FALSE(is_possible(wrong, 12)) << wrong.scale << " " << wrong.good_steps << " " << wrong.skipped_steps;
  }
  EXPECT_FALSE(is_loss_scale(1000));
  EXPECT_TRUE(is_loss_scale(1024));
}

}  // namespace
}  // namespace xrun::runtime
