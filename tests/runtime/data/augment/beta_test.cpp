// Compares numbers of Beta(alpha, alpha) with its distribution function, where it has a closed form, and with its
// moments.
#include "runtime/data/augment/beta.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <numbers>
#include <vector>

namespace xrun::runtime {
namespace {

constexpr uint64_t kSeed = 5;
constexpr uint64_t kDrawn = 20'000;

std::vector<double> drawn(double alpha) {
  std::vector<double> numbers;
  for (uint64_t i = 0; i < kDrawn; ++i) {
    numbers.push_back(draw_beta(alpha, RandomStream(kSeed, 0, i, 3), 16));
  }
  return numbers;
}

TEST(Beta, NumbersFollowTheDistributionFunction) {
  RecordProperty("seed", static_cast<int>(kSeed));
  struct Case {
    double alpha;
    std::function<double(double)> below;  // the distribution function
  };
  const std::vector<Case> cases{
      {0.5, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }},
      {1, [](double x) { return x; }},
      {2, [](double x) { return x * x * (3 - 2 * x); }},
      {3, [](double x) { return x * x * x * (10 - 15 * x + 6 * x * x); }},
  };
  for (const Case& one : cases) {
    std::vector<double> numbers = drawn(one.alpha);
    std::ranges::sort(numbers);
    double farthest = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double below = one.below(numbers[i]);
      const double steps[] = {static_cast<double>(i) / kDrawn, static_cast<double>(i + 1) / kDrawn};
      farthest = std::max({farthest, std::abs(below - steps[0]), std::abs(below - steps[1])});
    }
    // Kolmogorov-Smirnov: a true sampler is farther with a probability below 0.001.
    EXPECT_LT(farthest, 1.95 / std::sqrt(static_cast<double>(kDrawn))) << one.alpha << ", seed " << kSeed;
  }
}

TEST(Beta, MeansAndVariancesAreThoseOfTheDistribution) {
  RecordProperty("seed", static_cast<int>(kSeed));
  for (const double alpha : {0.01, 0.1, 0.2, 0.4, 0.8, 1.5, 5.0, 100.0}) {
    double mean = 0;
    double square = 0;
    for (const double x : drawn(alpha)) {
      ASSERT_TRUE(x >= 0 && x <= 1) << alpha;
      mean += x / kDrawn;
      square += (x - 0.5) * (x - 0.5) / kDrawn;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    // The bounds are four deviations of the mean, and of the mean square by at most the variance of a square.
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(variance / kDrawn)) << alpha << ", seed " << kSeed;
    EXPECT_NEAR(square, variance, 4 * std::sqrt(2.0 / kDrawn) * variance) << alpha << ", seed " << kSeed;
  }
}

TEST(Beta, ANumberDependsOnItsStreamAlone) {
  const RandomStream stream(kSeed, 1, 2, 3);
  const double first = draw_beta(0.2, stream, 16);
  EXPECT_EQ(draw_beta(0.2, stream, 16), first);
  EXPECT_NE(draw_beta(0.2, stream, 16 + kBetaBlocks), first);
  EXPECT_NE(draw_beta(0.2, RandomStream(kSeed + 1, 1, 2, 3), 16), first);
}

}  // namespace
}  // namespace xrun::runtime
