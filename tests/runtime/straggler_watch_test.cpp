#include "runtime/train/straggler_watch.h"

#include <gtest/gtest.h>
#include <random>

#include "runtime/executor/step_times.h"

namespace xrun::runtime {
namespace {

DevicePace pace(int device, Seconds busy, Seconds predicted) {
  return {.device = device, .busy = busy, .predicted = predicted, .what = "work", .excess = busy - predicted};
}

TEST(Stragglers, AreSlowAgainstTheOthersByWhatWasPredicted) {
  // Twice the work is not slow; a machine that is slow as a whole has no straggler.
  EXPECT_FALSE(slowest_of({pace(0, 0.010, 0.010), pace(1, 0.020, 0.020)}));
  EXPECT_FALSE(slowest_of({pace(0, 0.050, 0.010), pace(1, 0.100, 0.020)}));
  const auto slow = slowest_of({pace(0, 0.050, 0.010), pace(1, 0.100, 0.020), pace(2, 0.200, 0.010)});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->pace.device, 2);
  EXPECT_DOUBLE_EQ(slow->factor, 4);
  EXPECT_EQ(slowest_of({pace(0, 0.010, 0.010), pace(1, 0.040, 0.010)})->pace.device, 1);
}

TEST(Stragglers, NeedAnotherDeviceAPredictionAndAMillisecond) {
  EXPECT_FALSE(slowest_of({}));
  EXPECT_FALSE(slowest_of({pace(0, 1, 0.1)}));
  EXPECT_FALSE(slowest_of({pace(0, 1, 0), pace(1, 2, 0)}));
  EXPECT_FALSE(slowest_of({pace(0, 1e-4, 1e-4), pace(1, 9e-4, 1e-4)}));
  EXPECT_TRUE(slowest_of({pace(0, 1e-4, 1e-4), pace(1, 13e-4, 1e-4)}));
  EXPECT_FALSE(slowest_of({pace(0, 0.010, 0.010), pace(1, 0.0149, 0.010)}));
}

TEST(Stragglers, PacesAreToldAsText) {
  const PaceReport report{
      .window = 17,
      .paces = {
          {.device = 3, .busy = 0.125, .predicted = 0.25, .what = "backward of stage 1 (a .. b)", .excess = -0.125},
          {.device = 4, .busy = 1e-5, .predicted = 0, .what = "", .excess = 0}}};
  EXPECT_EQ(pace_report(to_text(report)), report);
  EXPECT_EQ(pace_report(to_text({.window = 9, .paces = {}})), (PaceReport{.window = 9, .paces = {}}));
  EXPECT_EQ(pace_report(""), PaceReport());
  EXPECT_EQ(pace_report("nonsense\n"), PaceReport());
  EXPECT_EQ(pace_report("7\n0 1 1 0 work\nnonsense\n1 1 1 0 work\n").paces.size(), 1U);
}

// Two devices with one kind of work each, as a plan of two stages has it.
class Watch : public ::testing::Test {
 protected:
  // Does one step, in which device 1 is slower by `factor`. Gives what is told.
  std::optional<Straggler> step(double factor) {
    if (!watch.wants_step()) {
      return std::nullopt;
    }
    times.devices = {{.busy = 0.010}, {.busy = 0.010 * factor}};
    watch.add({}, times);
    ++looked;
    if (!watch.ends()) {
      return std::nullopt;
    }
    auto paces = watch.paces();
    for (DevicePace& one : paces) {
      one.predicted = 0.010;
    }
    return watch.judge(paces);
  }

  StragglerWatch watch{StepProfile(planner::Program{}, Graph{}, {}, {})};
  StepTimes times;
  int looked = 0;
};

TEST_F(Watch, ASlowDeviceIsNamedWithinTwentyStepsAndOnce) {
  for (int begin = 0; begin < 40; ++begin) {
    SCOPED_TRACE(begin);
    watch = StragglerWatch(StepProfile(planner::Program{}, Graph{}, {}, {}));
    for (int i = 0; i < StragglerWatch::kWarmUp + begin; ++i) {
      ASSERT_FALSE(step(1));
    }
    int named = -1;
    int times_named = 0;
    for (int i = 1; i <= 60; ++i) {
      if (const auto slow = step(4)) {
        EXPECT_EQ(slow->pace.device, 1);
        EXPECT_NEAR(slow->factor, 4, 0.4);
        named = named < 0 ? i : named;
        ++times_named;
      }
    }
    EXPECT_GT(named, 0);
    EXPECT_LE(named, 20);
    EXPECT_EQ(times_named, 1);
  }
}

TEST_F(Watch, ADeviceThatWasToldIsToldAgainAfterAQuietTime) {
  const auto windows = [&](int count, double factor) {
    int told = 0;
    for (int i = 0; i < count * StragglerWatch::kLeast; ++i) {
      told += step(factor) ? 1 : 0;
    }
    return told;
  };
  for (int i = 0; i < StragglerWatch::kWarmUp; ++i) {
    step(1);
  }
  EXPECT_EQ(windows(3, 4), 1);
  EXPECT_EQ(windows(StragglerWatch::kQuiet - 1, 1), 0);
  EXPECT_EQ(windows(1, 4), 0);
  EXPECT_EQ(windows(StragglerWatch::kQuiet, 1), 0);
  EXPECT_EQ(windows(1, 4), 1);
}

TEST_F(Watch, OneSlowStepOfAWindowIsNotNamed) {
  constexpr uint64_t kSeed = 20261124;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> noise(0.8, 1.3);
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_FALSE(step(i % 10 == 0 ? 30 : noise(random))) << "seed " << kSeed << ", step " << i;
  }
}

TEST_F(Watch, LooksAtFiveStepsOfAWindowOfAnyLength) {
  watch.set_window(1000);
  for (int i = 0; i < StragglerWatch::kWarmUp + StragglerWatch::kLeast; ++i) {
    step(1);
  }
  EXPECT_EQ(looked, StragglerWatch::kLooks);
  EXPECT_EQ(watch.window(), 1000);
  for (int i = 0; i < 3000; ++i) {
    step(1);
  }
  EXPECT_EQ(looked, 4 * StragglerWatch::kLooks);
  watch.set_window(1);
  for (int i = 0; i < 1000; ++i) {
    step(1);
  }
  EXPECT_EQ(watch.window(), StragglerWatch::kLeast);
}

}  // namespace
}  // namespace xrun::runtime
