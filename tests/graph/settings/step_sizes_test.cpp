// Steps of a growing batch against the formula, unit by unit.
#include "graph/settings/step_sizes.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numbers>
#include <random>

namespace xrun {
namespace {

TrainSpec growing(int64_t first, int64_t times, double after, double over, double epochs) {
  TrainSpec train;
  train.batch = first * times;
  train.growth = GrowthSpec{.first = first,
                            .times = times,
                            .after = {after, TrainSpan::kEpochs},
                            .over = {over, TrainSpan::kEpochs},
                            .span = {}};
  train.duration = {epochs, TrainSpan::kEpochs};
  return train;
}

// Computes the steps by the formula of docs/reference/language.md, each as the number of its first unit and its number
// of units.
std::vector<std::pair<int64_t, int64_t>> steps_of(const TrainSpec& train, int64_t samples) {
  const GrowthSpec& growth = *train.growth;
  const double epoch = static_cast<double>(samples) / static_cast<double>(growth.first);
  const double from = growth.after.amount * epoch;
  const double span = growth.over.amount * epoch;
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (int64_t t = 0; static_cast<double>(t) < train.duration.amount * epoch - 1e-6;) {
    const double x = std::clamp((static_cast<double>(t) - from) / span, 0.0, 1.0);
    const double size = 1 + static_cast<double>(growth.times - 1) * (1 - std::cos(std::numbers::pi * x)) / 2;
    steps.emplace_back(t, static_cast<int64_t>(std::floor(size + 0.5 + 1e-9)));
    t += steps.back().second;
  }
  return steps;
}

TEST(StepSizes, AreThoseOfTheFormula) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(random);
    };
    const int64_t first = std::uniform_int_distribution<int64_t>(1, 64)(random);
    const int64_t times = std::uniform_int_distribution<int64_t>(2, 64)(random);
    const int64_t samples = std::uniform_int_distribution<int64_t>(100, 30'000)(random);
    const TrainSpec train = growing(first, times, random() % 3 == 0 ? 0 : draw(0, 2), draw(0.01, 4), draw(1, 8));
    const StepSizes sizes(train, samples);
    const auto expected = steps_of(train, samples);
    ASSERT_EQ(sizes.steps(), std::ssize(expected)) << "seed " << seed;
    for (size_t s = 0; s < expected.size(); ++s) {
      const auto step = static_cast<int64_t>(s);
      ASSERT_EQ(sizes.begin_of(step), expected[s].first) << "seed " << seed << ", step " << s;
      ASSERT_EQ(sizes.units_of(step), expected[s].second) << "seed " << seed << ", step " << s;
      ASSERT_EQ(sizes.step_at(expected[s].first), step) << "seed " << seed;
      if (s > 0 && expected[s].first - expected[s - 1].first > 1) {
        ASSERT_EQ(sizes.step_at(expected[s - 1].first + 1), step) << "seed " << seed;
      }
    }
  }
}

TEST(StepSizes, AreOneUnitIfTheBatchDoesNotGrow) {
  TrainSpec train;
  train.batch = 10;
  train.duration = {2.05, TrainSpan::kEpochs};
  const StepSizes sizes(train, 1000);
  EXPECT_EQ(sizes.steps(), 205);
  EXPECT_EQ(sizes.units_of(204), 1);
  EXPECT_EQ(sizes.begin_of(204), 204);
  EXPECT_EQ(sizes.step_at(77), 77);
}

TEST(StepSizes, ExtremeSpansCauseNoEndlessLoopAndNoOverflow) {
  for (const double span : {1e-300, 1e-9, 1e12, 1e300}) {
    for (const double run : {1e-9, 1.0, 1e12}) {
      const StepSizes sizes(growing(1, 64, span, span, run), 1'000'000'000);
      EXPECT_GE(sizes.steps(), 1) << span << ", " << run;
      EXPECT_GE(sizes.begin_of(int64_t{1} << 40), int64_t{1} << 40);
    }
  }
}

TEST(StepSizes, AGrowthShorterThanAStepSkipsSizes) {
  const StepSizes sizes(growing(10, 8, 0.5, 0.01, 1), 1000);  // fifty units, then half a cosine over one unit
  EXPECT_EQ(sizes.units_of(49), 1);
  EXPECT_EQ(sizes.units_of(50), 1) << "the growth begins with this unit";
  EXPECT_EQ(sizes.units_of(51), 8);
  EXPECT_EQ(sizes.steps(), 51 + 7) << "the last step reaches over the end of the run";
}

}  // namespace
}  // namespace xrun
