// Selections of the largest elements compared with a sort, and the arithmetic of compressed gradients.
#include "ops/reduce/top_k.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "ops/optimizer/compression.h"

namespace xrun::ops {
namespace {

// Runs items in reverse order on its workers in turn, unlike InlineWorkers.
class ReversedWorkers final : public Workers {
 public:
  explicit ReversedWorkers(int count) : count_(count) {}
  int count() const override { return count_; }
  void for_each(int64_t items, ItemBody body) override {
    for (int64_t i = items; i-- > 0;) {
      body(i, static_cast<int>(i % count_));
    }
  }

 private:
  int count_;
};

// An oracle: sorts all indices by descending magnitude, then by index.
std::vector<GradientPair> sorted_largest(const std::vector<float>& values, int64_t k) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int32_t i) {
    const float value = std::abs(values[static_cast<size_t>(i)]);
    return std::isnan(value) ? std::pair(1, 0.0F) : std::pair(0, value);
  };
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return rank(a) > rank(b); });
  order.resize(static_cast<size_t>(k));
  std::ranges::sort(order);
  std::vector<GradientPair> pairs;
  for (const int32_t i : order) {
    pairs.push_back({i, values[static_cast<size_t>(i)]});
  }
  return pairs;
}

void expect_largest(const std::vector<float>& values, int64_t k) {
  const auto wanted = sorted_largest(values, k);
  ReversedWorkers reversed(3);
  InlineWorkers in_order;
  for (Workers* workers : {static_cast<Workers*>(&reversed), static_cast<Workers*>(&in_order)}) {
    TopK selection(std::ssize(values), workers->count(), k);
    std::vector<GradientPair> pairs(static_cast<size_t>(k) + 1, {-7, -7});
    selection.select(values.data(), std::ssize(values), k, pairs.data(), *workers);
    EXPECT_EQ(pairs.back().index, -7) << "writes no more than k pairs";
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(pairs[i].index, wanted[i].index) << "pair " << i << " of " << k << " out of " << values.size();
      ASSERT_TRUE(pairs[i].value == wanted[i].value || (std::isnan(pairs[i].value) && std::isnan(wanted[i].value)));
    }
  }
}

TEST(TopK, SelectsAsASortDoes) {
  constexpr uint32_t kSeed = 11;
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937 random(kSeed);
  for (int round = 0; round < 60; ++round) {
    const int64_t count = round % 6 == 0 ? 65536 * 2 + round : 1 + static_cast<int64_t>(random() % 5000);
    std::vector<float> values(static_cast<size_t>(count));
    const bool coarse = round % 2 == 1;  // few distinct values, so many ties
    for (float& value : values) {
      value = std::normal_distribution<float>(0, 1)(random);
      value = coarse ? std::round(2 * value) : value;
    }
    expect_largest(values, 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(count)));
    expect_largest(values, 1);
    expect_largest(values, count);
  }
}

TEST(TopK, TakesTheLowerIndexOfEqualMagnitudesAcrossChunks) {
  std::vector<float> values(200'000, -1.5F);
  for (size_t i = 0; i < values.size(); i += 2) {
    values[i] = 1.5F;
  }
  expect_largest(values, 70'000);
  std::ranges::fill(values, 0.0F);
  expect_largest(values, 3);
}

TEST(TopK, AFewOfManyEqualASortEvenIfTheSampleIsMisleading) {
  constexpr uint32_t kSeed = 12;
  RecordProperty("seed", static_cast<int>(kSeed));
  std::mt19937 random(kSeed);
  constexpr size_t kCount = 300'011;
  std::vector<float> values(kCount);
  const auto draw = [&](float scale, bool coarse) {
    for (float& value : values) {
      value = scale * std::normal_distribution<float>(0, 1)(random);
      value = coarse ? std::round(value) : value;
    }
  };
  for (const int64_t k : {1, 17, 300, 5000, 9375}) {
    draw(1, false);
    expect_largest(values, k);
    draw(2, true);
    expect_largest(values, k);
    // The selection samples every 61st element. Here the sample has only large elements, so its bound is above the k-th
    // element, or only small ones, so nearly all elements are above the bound.
    for (const float scale : {1e3F, 1e-3F}) {
      draw(1, false);
      for (size_t i = 0; i < kCount; i += 61) {
        values[i] *= scale;
      }
      expect_largest(values, k);
    }
    draw(1, false);
    values[61'000] = std::numeric_limits<float>::quiet_NaN();
    expect_largest(values, k);
  }
  std::ranges::fill(values, 0.0F);
  expect_largest(values, 300);
}

TEST(TopK, NanComesFirstThenInfinityThenNumbersOfEveryScale) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{0.0F, -0.0F, 1e-38F, -inf, 3e38F, -nan, -1.0F, inf, nan, 1e-20F, 2.0F};
  for (int64_t k = 1; k <= std::ssize(values); ++k) {
    expect_largest(values, k);
  }
}

TEST(Compression, SentElementsAreRemovedFromVelocityAndResidual) {
  std::vector<float> gradient{1, -2, 0.5F, 4};
  std::vector<float> weight{10, 10, 10, 10};
  std::vector<float> velocity{1, 1, 1, 1};
  std::vector<float> residual{0, 0, 8, 0};
  accumulate({.scale = 0.5F, .limit = 1.5F, .decay = 0.1F, .momentum = 0.5F}, gradient.data(), weight.data(),
             velocity.data(), residual.data(), 4);
  EXPECT_EQ(velocity, (std::vector<float>{2.0F, 0.5F, 1.75F, 3.0F}));
  EXPECT_EQ(residual, (std::vector<float>{2.0F, 0.5F, 9.75F, 3.0F}));
  const GradientPair sent[] = {{2, 9.75F}, {3, 3.0F}};
  clear_sent(sent, 2, velocity.data(), residual.data());
  EXPECT_EQ(velocity, (std::vector<float>{2.0F, 0.5F, 0, 0}));
  EXPECT_EQ(residual, (std::vector<float>{2.0F, 0.5F, 0, 0}));
}

// The number of elements is larger than one chunk and not a multiple of it.
TEST(Compression, ElementsAreAccumulatedAlikeInCallsOfAnySize) {
  constexpr size_t kCount = 37;
  const CompressScalars scalars{.scale = 0.7F, .limit = 1.5F, .decay = 0.1F, .momentum = 0.9F};
  std::vector<float> gradient;
  std::vector<float> weight;
  std::vector<float> velocity;
  for (size_t i = 0; i < kCount; ++i) {
    gradient.push_back(std::sin(static_cast<float>(i)) * 4);
    weight.push_back(std::cos(static_cast<float>(i)));
    velocity.push_back(1 / static_cast<float>(i + 1));
  }
  gradient[20] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> residual = weight;
  std::vector<float> alone_velocity = velocity;
  std::vector<float> alone_residual = residual;
  accumulate(scalars, gradient.data(), weight.data(), velocity.data(), residual.data(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    accumulate(scalars, &gradient[i], &weight[i], &alone_velocity[i], &alone_residual[i], 1);
    EXPECT_EQ(std::isnan(velocity[i]), i == 20) << "NaN is not hidden by the limit";
    if (i != 20) {
      EXPECT_EQ(velocity[i], alone_velocity[i]) << i;
      EXPECT_EQ(residual[i], alone_residual[i]) << i;
    }
  }
}

TEST(Compression, PairsOfAllReplicasAreSummedInTheirOrderBeforeTheWeightChanges) {
  // Three replicas have two pairs each, stored four apart. In the right order, 1e8 + 1 - 1e8 is 0 in f32; in another
  // order it is 1.
  std::vector<GradientPair> pairs(12, {99, 99});
  pairs[0] = {1, 1e8F};
  pairs[1] = {3, 2};
  pairs[4] = {0, 4};
  pairs[5] = {1, 1};
  pairs[8] = {1, -1e8F};
  pairs[9] = {3, 3};
  std::vector<float> sums(4, 77);
  std::vector<float> weight{1, 1, 1, 1};
  subtract_pairs(pairs.data(), 2, 4, 3, 0.5F, sums.data(), weight.data());
  EXPECT_EQ(weight, (std::vector<float>{-1, 1, 1, -1.5F}));
}

}  // namespace
}  // namespace xrun::ops
