#include "runtime/train/watch/straggler_watch.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "runtime/executor/step_times.h"

namespace xrun::runtime {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

DevicePace pace(int device, Seconds busy, Seconds predicted) {
  return {.device = device, .busy = busy, .predicted = predicted, .what = "work", .excess = busy - predicted};
}

std::vector<double> factors(const std::vector<DevicePace>& paces) {
  std::vector<double> found;
  for (const Straggler& one : compare(paces)) {
    found.push_back(one.factor);
  }
  return found;
}

TEST(Stragglers, AreFoundByComparingMeasuredAndPredictedTimes) {
  // A device with twice the work is not slow. If the whole machine is slow, there is no straggler.
  EXPECT_THAT(factors({pace(0, 0.010, 0.010), pace(1, 0.020, 0.020)}), ElementsAre(1, 1));
  EXPECT_THAT(factors({pace(0, 0.050, 0.010), pace(1, 0.100, 0.020)}), ElementsAre(1, 1));
  EXPECT_THAT(factors({pace(0, 0.050, 0.010), pace(1, 0.100, 0.020), pace(2, 0.200, 0.010)}),
              ElementsAre(1, 1, DoubleEq(4)));
  EXPECT_THAT(factors({pace(0, 0.010, 0.010), pace(1, 0.040, 0.010)}), ElementsAre(1, DoubleEq(4)));
}

TEST(Stragglers, AreFoundOnlyAmongSeveralPredictedDevicesAndIfAMillisecondLate) {
  EXPECT_THAT(compare({}), IsEmpty());
  EXPECT_THAT(compare({pace(0, 1, 0.1)}), IsEmpty());
  EXPECT_THAT(compare({pace(0, 1, 0), pace(1, 2, 0)}), IsEmpty());
  EXPECT_THAT(factors({pace(0, 1e-4, 1e-4), pace(1, 9e-4, 1e-4)}), ElementsAre(1, 1));
  EXPECT_THAT(factors({pace(0, 1e-4, 1e-4), pace(1, 13e-4, 1e-4)}), ElementsAre(1, DoubleEq(13)));
}

TEST(Stragglers, PacesArePrintedAsText) {
  const PaceReport report{
      .seconds = 1.25,
      .paces = {
          {.device = 3, .busy = 0.125, .predicted = 0.25, .what = "backward of stage 1 (a .. b)", .excess = -0.125},
          {.device = 4, .busy = 1e-5, .predicted = 0, .what = "", .excess = 0}}};
  EXPECT_EQ(pace_report(to_text(report)), report);
  EXPECT_EQ(pace_report(to_text({.seconds = 0.5, .paces = {}})), (PaceReport{.seconds = 0.5, .paces = {}}));
  EXPECT_EQ(pace_report(""), PaceReport());
  EXPECT_EQ(pace_report("nonsense\n"), PaceReport());
  EXPECT_EQ(pace_report("7\n0 1 1 0 work\nnonsense\n1 1 1 0 work\n").paces.size(), 1U);
}

// Two devices with one kind of work each, as in a plan of two stages.
class StragglerWatchTest : public ::testing::Test {
 protected:
  // Does one step in which device 1 is slower by `factor`, and returns the devices that are reported.
  std::vector<Straggler> step(double factor) {
    if (!watch.wants_step()) {
      return {};
    }
    times.devices = {{.busy = seconds}, {.busy = seconds * factor}};
    times.seconds = seconds * std::max(factor, 1.0);
    watch.add({}, times);
    ++looked;
    if (!watch.ends()) {
      return {};
    }
    PaceReport report = watch.report();
    for (DevicePace& one : report.paces) {
      one.predicted = 0.010;
    }
    return watch.judge(report.paces, report.seconds);
  }
  // Does the warm-up, if it is still needed, and `count` windows. Returns how many times a device was reported.
  int64_t windows(int count, double factor) {
    int64_t named = 0;
    for (int i = 0; i < count; ++i) {
      for (const int end = looked + static_cast<int>(StragglerWatch::kLooks); looked < end;) {
        named += std::ssize(step(factor));
      }
    }
    return named;
  }

  // Ends a window of `window` seconds in which device 1 was slower by `factor`. Returns how many devices are reported.
  int64_t judge(double factor, Seconds window) {
    return std::ssize(watch.judge({pace(0, 0.1, 0.1), pace(1, 0.1 * factor, 0.1)}, window));
  }

  Seconds seconds = 0.25;
  StragglerWatch watch{StepProfile(planner::Program{}, Graph{}, {}, {})};
  StepTimes times;
  int looked = 0;
};

TEST_F(StragglerWatchTest, ASlowDeviceIsNamedWithinTwentyStepsAndOnce) {
  for (int begin = 0; begin < 40; ++begin) {
    SCOPED_TRACE(begin);
    watch = StragglerWatch(StepProfile(planner::Program{}, Graph{}, {}, {}));
    for (int i = 0; i < StragglerWatch::kWarmUp + begin; ++i) {
      ASSERT_THAT(step(1), IsEmpty());
    }
    int named = -1;
    int times_named = 0;
    for (int i = 1; i <= 60; ++i) {
      for (const Straggler& slow : step(4)) {
        EXPECT_EQ(slow.pace.device, 1);
        EXPECT_NEAR(slow.factor, 4, 0.4);
        named = named < 0 ? i : named;
        ++times_named;
      }
    }
    EXPECT_GT(named, 0);
    EXPECT_LE(named, 20);
    EXPECT_EQ(times_named, 1);
  }
}

// One device has a quarter of a core, and the other one is slowed down as well, so the steps take 0.15 s.
TEST_F(StragglerWatchTest, AFactorOfThreeIsNamedWithinTwentySteps) {
  seconds = 0.05;
  int named = 0;
  for (int i = 1; i <= 30 && named == 0; ++i) {
    named = step(3).empty() ? 0 : i;
  }
  EXPECT_GT(named, 10) << "more than one window";
  EXPECT_LE(named, 20);
}

TEST_F(StragglerWatchTest, ASmallerFactorIsDetectedLater) {
  const auto seconds_until_named = [&](double factor) {
    watch = StragglerWatch(StepProfile(planner::Program{}, Graph{}, {}, {}));
    int count = 1;
    while (count < 3600 && judge(factor, 1) == 0) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(seconds_until_named(10), 2);
  EXPECT_EQ(seconds_until_named(4), 2);
  EXPECT_EQ(seconds_until_named(3), 2);
  EXPECT_EQ(seconds_until_named(2.5), 5);
  EXPECT_EQ(seconds_until_named(2), 23);
  EXPECT_EQ(seconds_until_named(1.8), 89);
  EXPECT_EQ(seconds_until_named(1.6), 1985);
  EXPECT_EQ(seconds_until_named(1.49), 3600) << "never";
}

// Other work takes a core for one second. After two seconds without other work, it takes half of the core for ten
// seconds. This sometimes happens on a shared machine.
TEST_F(StragglerWatchTest, AnInterruptionOfADeviceIsNotNamed) {
  for (const Seconds window : {0.5, 1.0}) {
    const auto last = [&](Seconds time, double factor) {
      int64_t named = 0;
      for (int i = 0; i < static_cast<int>(std::lround(time / window)); ++i) {
        named += judge(factor, window);
      }
      return named;
    };
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(last(1, 8), 0);
      EXPECT_EQ(last(2, 1), 0);
      EXPECT_EQ(last(10, 2), 0);
      EXPECT_EQ(last(2, 1), 0);
    }
  }
}

// Five steps of several seconds form a long window.
TEST_F(StragglerWatchTest, ALongWindowIsStrongerEvidenceButNeverSufficient) {
  EXPECT_EQ(judge(2, 15), 0);
  EXPECT_EQ(judge(2, 15), 1) << "30 seconds, where 22.4 are enough";
  watch = StragglerWatch(StepProfile(planner::Program{}, Graph{}, {}, {}));
  EXPECT_EQ(judge(2, 1000), 0);
  EXPECT_EQ(judge(2, 1000), 1);
}

// Five steps of a millisecond are little evidence.
TEST_F(StragglerWatchTest, AShortWindowIsWeakEvidence) {
  seconds = 0.001;
  EXPECT_EQ(windows(1, 8), 0);
  EXPECT_EQ(watch.window(), 63) << "steps of 8 ms in half a second";
  EXPECT_EQ(windows(2, 8), 0);
  EXPECT_EQ(windows(1, 8), 1);
}

TEST_F(StragglerWatchTest, AWindowTakesHalfASecondAtLeast) {
  seconds = 0.084;
  windows(1, 1);
  EXPECT_EQ(watch.window(), 6);
}

// The reported factor is computed from the windows above the threshold only.
TEST_F(StragglerWatchTest, TheReportedFactorIsComputedFromTheSlowWindows) {
  std::vector<Straggler> named;
  for (const double factor : {8.0, 1.4, 1.4, 1.4, 8.0}) {
    for (const Straggler& one : watch.judge({pace(0, 0.1, 0.1), pace(1, 0.1 * factor, 0.1)}, 1)) {
      named.push_back(one);
    }
  }
  ASSERT_EQ(named.size(), 1U);
  EXPECT_NEAR(named[0].factor, 8, 1e-9);
}

TEST_F(StragglerWatchTest, TwoSlowDevicesAreBothNamed) {
  std::vector<Straggler> named;
  for (int i = 0; i < 3; ++i) {
    for (const Straggler& one : watch.judge(
             {pace(0, 0.1, 0.1), pace(1, 0.4, 0.1), pace(2, 0.1, 0.1), pace(3, 0.3, 0.1), pace(4, 0.1, 0.1)}, 1)) {
      named.push_back(one);
    }
  }
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].pace.device, 1);
  EXPECT_NEAR(named[0].factor, 4, 1e-9);
  EXPECT_EQ(named[1].pace.device, 3);
  EXPECT_NEAR(named[1].factor, 3, 1e-9);
}

TEST_F(StragglerWatchTest, AReportedDeviceIsReportedAgainAfterAQuietTime) {
  EXPECT_EQ(windows(4, 4), 1);
  EXPECT_EQ(windows(StragglerWatch::kQuiet - 2, 1), 0);
  EXPECT_EQ(windows(2, 4), 0);
  EXPECT_EQ(windows(StragglerWatch::kQuiet, 1), 0);
  EXPECT_EQ(windows(2, 4), 1);
}

TEST_F(StragglerWatchTest, AChangeOfTheStepSizeKeepsTheEvidence) {
  const StepProfile profile(planner::Program{}, Graph{}, {}, {});
  EXPECT_EQ(windows(1, 4), 0);
  watch.move_to(profile);
  EXPECT_EQ(windows(1, 4), 1) << "the second window that is slow";
  watch.move_to(profile);
  EXPECT_EQ(windows(5, 4), 0) << "it was told";
  watch.move_to(profile);
  for (int i = 0; i < StragglerWatch::kWarmUp + 3; ++i) {
    step(1);
  }
  watch.move_to(profile);
  looked = 0;
  windows(1, 1);
  EXPECT_EQ(looked, StragglerWatch::kLooks) << "a whole window after the one that was not ended";
}

TEST_F(StragglerWatchTest, OneSlowStepOfAWindowIsNotNamed) {
  constexpr uint64_t kSeed = 20261124;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> noise(0.8, 1.3);
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_THAT(step(i % 5 == 0 ? 30 : noise(random)), IsEmpty()) << "seed " << kSeed << ", step " << i;
  }
}

TEST_F(StragglerWatchTest, MeasuresFiveStepsOfAWindowOfAnyLength) {
  seconds = 0.001;
  windows(1, 1);
  EXPECT_EQ(looked, StragglerWatch::kLooks);
  EXPECT_EQ(watch.window(), 500);
  windows(3, 1);
  EXPECT_EQ(looked, 4 * StragglerWatch::kLooks);
  seconds = 10;
  windows(2, 1);
  EXPECT_EQ(watch.window(), StragglerWatch::kLeast);
}

}  // namespace
}  // namespace xrun::runtime
