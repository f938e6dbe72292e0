// The chosen time between two saves costs little more than the best one. A few readings of the clock find it, and all
// ranks save after the same steps.
#include "runtime/train/save_interval.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace xrun::runtime {
namespace {

// Returns the time that passes for each second of work if failures come at random and a save and a start cost `save`
// each. Source: the complete runtime model of Daly 2006.
double stretch(double interval, double save, double mtbf) {
  return mtbf * std::exp(save / mtbf) * std::expm1((interval + save) / mtbf) / interval;
}

TEST(SaveInterval, CostsLittleMoreThanTheBestOfAllIntervals) {
  for (const double mtbf : {60.0, 3600.0, 86400.0, 1e7}) {
    for (const double share : {1e-7, 1e-5, 1e-3, 0.01, 0.1, 0.3}) {
      const double save = mtbf * share;
      double best = 1e300;
      for (double interval = save * 1e-2; interval < 10 * mtbf; interval *= 1.001) {
        best = std::min(best, stretch(interval, save, mtbf));
      }
      const double own = stretch(best_interval(save, mtbf), save, mtbf);
      EXPECT_LE(own - 1, (best - 1) * 1.01) << "a save of " << save << " s, a failure every " << mtbf << " s";
    }
  }
  EXPECT_EQ(best_interval(100, 50), 50) << "a save takes longer than the time between two failures allows";
}

TEST(SaveInterval, FewClockReadingsFindTheStepAndAllRanksAgree) {
  constexpr uint64_t kSeed = 20261124;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    const double of_step = std::exp(std::uniform_real_distribution(-4.0, 3.0)(random));
    const double cost = std::exp(std::uniform_real_distribution(-6.0, 5.0)(random));
    const double mtbf = std::exp(std::uniform_real_distribution(3.0, 12.0)(random));
    SaveInterval first(mtbf, 300'000'000);
    SaveInterval second(mtbf, 1);
    double now = 1000;
    int64_t step = std::uniform_int_distribution<int64_t>(0, 1000)(random);
    first.begin(step, now);
    second.begin(step, 0);
    double began = now;
    double wanted = best_interval(0.3, mtbf);  // no save has been timed yet
    int looks = 0;
    int saves = 0;
    while (saves < 4) {
      ++step;
      now += of_step;
      ASSERT_EQ(first.looks(step), second.looks(step));
      if (!first.looks(step)) {
        continue;
      }
      ++looks;
      const SaveInterval::Look look = look_of(to_text(first.look(step, now)));
      first.follow(look);
      second.follow(look);
      if (look.save) {
        const double passed = now - began;
        ASSERT_NEAR(passed, std::max(wanted, of_step), of_step * 1.01) << "seed " << kSeed << ", round " << round;
        ASSERT_LE(looks, 45);
        now += cost;
        first.took(cost);
        first.begin(step, now);
        second.took(cost * 7);
        second.begin(step, 0);  // this rank's own clock and times are not used
        began = now;
        wanted = best_interval(cost, mtbf);
        EXPECT_DOUBLE_EQ(first.seconds(), wanted);
        looks = 0;
        ++saves;
      }
    }
  }
}

// If a run fails every minute and saves 73 MiB, its first save comes after less than ten seconds of steps.
TEST(SaveInterval, TheFirstIntervalIsEstimatedFromTheBytes) {
  EXPECT_LT(SaveInterval(60, 73 * kMiB).seconds(), 4);
  EXPECT_GT(SaveInterval(60, 0).seconds(), 0);
  EXPECT_EQ(SaveInterval(60, 20'000'000'000).seconds(), best_interval(20, 60));
}

TEST(SaveInterval, AClockThatStandsStillNeitherSavesNorStops) {
  SaveInterval interval(60, 73 * kMiB);
  interval.begin(5, 1);
  ASSERT_TRUE(interval.looks(6));
  const auto look = interval.look(6, 1);
  EXPECT_FALSE(look.save);
  EXPECT_GT(look.next, 6);
  EXPECT_LE(look.next, 6 + (1 << 20));
}

}  // namespace
}  // namespace xrun::runtime
