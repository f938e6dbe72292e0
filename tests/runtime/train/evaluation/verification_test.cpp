// Verification of pairs: the published numbers for made features, ties, folds, and evaluations with mirror images.
#include "runtime/train/evaluation/verification.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/base/random.h"
#include "tests/support/golden.h"

namespace xrun::runtime {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using Json = nlohmann::json;

uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// A multiple of 2^-24 in [-0.5, 0.5), as in tests/golden/verification/published.py.
double uniform(uint64_t seed, uint64_t i) {
  return static_cast<double>(splitmix((seed << 32) + i) >> 40) / 16777216.0 - 0.5;
}

std::vector<double> drawn(uint64_t seed, uint64_t at, size_t dim) {
  std::vector<double> row(dim);
  for (size_t d = 0; d < dim; ++d) {
    row[d] = uniform(seed, at + d);
  }
  return row;
}

// The pairs of a case of published.json, whose features published.py makes in the same way.
std::vector<ComparedPair> pairs_of(const Json& one) {
  const uint64_t seed = one["seed"];
  const size_t dim = one["dim"];
  const double near = one["near"];
  const double levels = one["levels"];
  uint64_t at = 0;
  PairDistances distances(static_cast<int64_t>(dim));
  std::vector<ComparedPair> pairs;
  for (uint64_t pair = 0; pair < one["pairs"]; ++pair) {
    const bool same = uniform(seed, 1'000'000'000 + pair) < one["share"].get<double>() - 0.5;
    std::vector<double> centre = drawn(seed, at, dim);
    at += dim;
    for (int sample = 0; sample < 2; ++sample) {
      if (sample == 1 && !same) {
        centre = drawn(seed, at, dim);
        at += dim;
      }
      std::vector<float> rows[2];
      for (std::vector<float>& row : rows) {
        for (size_t d = 0; d < dim; ++d) {
          const double x = centre[d] + near * uniform(seed, at + d);
          row.push_back(static_cast<float>(levels > 0 ? std::floor(x * levels + 0.5) : x));
        }
        at += dim;
      }
      distances.add(rows[0].data(), rows[1].data());
    }
    pairs.push_back({distances.squared().back(), same});
  }
  return pairs;
}

TEST(Verification, EqualsThePublishedCode) {
  const Json published = Json::parse(test::read_source_file("tests/golden/verification/published.json"));
  ASSERT_EQ(published["cases"].size(), 7U) << published["made_by"];
  for (const Json& one : published["cases"]) {
    SCOPED_TRACE(::testing::Message() << "seed " << one["seed"]);
    const VerifiedPairs scored = score_pairs(pairs_of(one), one["folds"]);
    EXPECT_EQ(scored.pairs, one["pairs"]);
    EXPECT_EQ(scored.different, one["different"]);
    EXPECT_NEAR(scored.accuracy, one["accuracy"], 1e-6);
    EXPECT_NEAR(scored.deviation, one["deviation"], 1e-6);
    ASSERT_EQ(scored.tar_at_far.size(), one["tar_at_far"].size());
    for (size_t i = 0; i < scored.tar_at_far.size(); ++i) {
      const Json& tar = one["tar_at_far"][i];
      EXPECT_NEAR(scored.tar_at_far[i].far, tar[0], 1e-12);
      EXPECT_NEAR(scored.tar_at_far[i].tar, tar[1], 1e-6) << "FAR " << tar[0];
      EXPECT_NEAR(scored.tar_at_far[i].deviation, tar[2], 1e-6) << "FAR " << tar[0];
      EXPECT_NEAR(scored.tar_at_far[i].measured, tar[3], 1e-6) << "FAR " << tar[0];
    }
    ASSERT_EQ(scored.roc.size(), 400U);
    for (size_t i = 0; i < one["tpr"].size(); ++i) {
      EXPECT_NEAR(scored.roc[10 * i].tar, one["tpr"][i], 1e-6) << i;
      EXPECT_NEAR(scored.roc[10 * i].far, one["fpr"][i], 1e-6) << i;
      EXPECT_NEAR(scored.roc[10 * i].threshold, 0.1 * static_cast<double>(i), 1e-12);
    }
  }
}

// `count` pairs of one class or of different classes at a distance.
void add(std::vector<ComparedPair>& pairs, int count, double squared, bool same) {
  pairs.insert(pairs.end(), static_cast<size_t>(count), ComparedPair{squared, same});
}

// Both kinds alternate, so that every fold has both.
std::vector<ComparedPair> apart(int count, double same, double different) {
  std::vector<ComparedPair> pairs;
  for (int i = 0; i < count; ++i) {
    add(pairs, 1, same, true);
    add(pairs, 1, different, false);
  }
  return pairs;
}

TEST(Verification, PairsThatAThresholdSeparatesAreAllRight) {
  const VerifiedPairs scored = score_pairs(apart(500, 0.5, 2.0), 10);
  EXPECT_EQ(scored.accuracy, 1.0);
  EXPECT_EQ(scored.deviation, 0.0);
  EXPECT_NEAR(scored.threshold, 0.51, 1e-12) << "the first threshold above 0.5";
  std::vector<double> fars;
  for (const TarAtFar& one : scored.tar_at_far) {
    fars.push_back(one.far);
    EXPECT_EQ(one.tar, 1.0);
    // The FAR rises from 0 to 1 between two thresholds, and a threshold with a FAR above 0 lies between them.
    EXPECT_EQ(one.measured, one.far > 0 ? 1.0 : 0.0);
  }
  EXPECT_THAT(fars, ElementsAre(0.1, 0.01, 0)) << "1e-3 of 500 pairs is less than a pair";
}

TEST(Verification, TheAccuracyOverEqualFoldsIsRoundedOnce) {
  std::vector<ComparedPair> pairs = apart(3000, 0.5, 2.0);
  for (size_t wrong = 0; wrong < 18; ++wrong) {
    pairs[2 * wrong].squared = 2.5;  // all in the first fold
  }
  EXPECT_EQ(score_pairs(pairs, 10).accuracy, 0.997) << "the mean of the ten shares is 0.9969999999999999";
  EXPECT_NEAR(score_pairs(pairs, 10).deviation, 0.009, 1e-12);
}

TEST(Verification, TheSmallestFarIsThatOfOnePair) {
  EXPECT_EQ(score_pairs(apart(9, 0.5, 2.0), 2).tar_at_far.size(), 1U);
  EXPECT_EQ(score_pairs(apart(10, 0.5, 2.0), 2).tar_at_far.size(), 2U);
  EXPECT_EQ(score_pairs(apart(999, 0.5, 2.0), 10).tar_at_far.size(), 3U);
  EXPECT_EQ(score_pairs(apart(1000, 0.5, 2.0), 10).tar_at_far.size(), 4U);
}

TEST(Verification, ADistanceEqualToTheThresholdIsNotAccepted) {
  std::vector<ComparedPair> pairs = apart(10, 1.0, 1.0);
  const VerifiedPairs scored = score_pairs(pairs, 2);
  EXPECT_EQ(scored.roc[100].threshold, 1.0);
  EXPECT_EQ(scored.roc[100].tar, 0.0);
  EXPECT_EQ(scored.roc[101].tar, 1.0);
  EXPECT_EQ(scored.threshold, 0.0) << "all thresholds decide half of the pairs correctly, and the first is taken";
}

TEST(Verification, PairsOfOneKindHaveAnAccuracyButNoTar) {
  std::vector<ComparedPair> pairs;
  add(pairs, 20, 0.3, true);
  EXPECT_TRUE(score_pairs(pairs, 4).tar_at_far.empty());
  EXPECT_EQ(score_pairs(pairs, 4).accuracy, 1.0);
  pairs.clear();
  add(pairs, 20, 0.3, false);
  EXPECT_TRUE(score_pairs(pairs, 4).tar_at_far.empty());
  EXPECT_EQ(score_pairs(pairs, 4).threshold, 0.0);
  EXPECT_EQ(score_pairs(pairs, 4).accuracy, 1.0);
}

TEST(Verification, FoldsWithoutAKindDoNotCountForItsShare) {
  std::vector<ComparedPair> pairs;
  add(pairs, 10, 0.3, true);
  add(pairs, 10, 2.0, false);  // the folds are not shuffled: each has pairs of one kind
  const VerifiedPairs scored = score_pairs(pairs, 2);
  ASSERT_EQ(scored.tar_at_far.size(), 2U);
  EXPECT_EQ(scored.tar_at_far[0].deviation, 0.0) << "only the first fold has pairs of one class";
}

// The simplest form of the protocol: loops over thresholds and pairs.
double accuracy_by_loops(const std::vector<ComparedPair>& pairs, size_t folds) {
  double sum = 0;
  size_t first = 0;
  for (size_t fold = 0; fold < folds; ++fold) {
    const size_t last = first + pairs.size() / folds + (fold < pairs.size() % folds ? 1 : 0);
    const auto right = [&](double threshold, bool inside) {
      int count = 0;
      for (size_t i = 0; i < pairs.size(); ++i) {
        const bool is_inside = first <= i && i < last;
        count += is_inside == inside && (pairs[i].squared < threshold) == pairs[i].same ? 1 : 0;
      }
      return count;
    };
    int best = 0;
    for (int i = 1; i < 400; ++i) {
      best = right(i * 0.01, false) > right(best * 0.01, false) ? i : best;
    }
    sum += right(best * 0.01, true) / static_cast<double>(last - first);
    first = last;
  }
  return sum / static_cast<double>(folds);
}

TEST(Verification, EqualsLoopsOverAllPairs) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const RandomStream random(seed, 0);
    std::vector<ComparedPair> pairs;
    const size_t count = 10 + random.below(0, 60);
    for (uint64_t i = 0; i < count; ++i) {
      const bool same = random.below(3 * i + 1, 2) == 0;
      // Steps of 1 / 8 make ties, also with thresholds.
      const double squared = static_cast<double>(random.below(3 * i + 2, same ? 20 : 33)) / 8;
      pairs.push_back({squared, same});
    }
    const auto folds = static_cast<size_t>(2 + random.below(1'000'000, 8));
    EXPECT_NEAR(score_pairs(pairs, static_cast<int64_t>(folds)).accuracy, accuracy_by_loops(pairs, folds), 1e-12)
        << "seed " << seed << ", " << count << " pairs, " << folds << " folds";
  }
}

TEST(PairDistances, AreThoseOfNormalisedSums) {
  PairDistances distances(2);
  const float right[] = {3, 0};
  const float up[] = {0, 0.5};
  const float left[] = {-2, 0};
  const float none[] = {0, 0};
  for (const float* const feature : {right, up, right, left, right, none}) {
    distances.add(feature, nullptr);
  }
  EXPECT_THAT(distances.squared(), ElementsAre(DoubleNear(2, 1e-12), DoubleNear(4, 1e-12), DoubleNear(1, 1e-12)));
  distances.add(right, up);  // (3, 0.5)
  distances.add(up, right);
  EXPECT_EQ(distances.squared().back(), 0);
}

TEST(PairDistances, ABrokenSampleLeavesOutItsPairOnly) {
  PairDistances distances(1);
  const float one[] = {1};
  distances.add_broken();
  distances.add(one, nullptr);
  distances.add(one, nullptr);
  distances.add_broken();
  distances.add(one, nullptr);
  distances.add(one, nullptr);
  EXPECT_THAT(distances.squared(), ElementsAre(PairDistances::kLeftOut, PairDistances::kLeftOut, 0));
}

}  // namespace
}  // namespace xrun::runtime
