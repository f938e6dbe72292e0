#include "ops/optimizer/compression.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "graph/base/random.h"

namespace xrun::ops {
namespace {

std::vector<float> draw(size_t n, uint64_t key) {
  const RandomStream stream(key, 5);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = stream.uniform(i, -1, 1);
  }
  return values;
}

TEST(Compression, AccumulatesWithAndWithoutNesterovAsInF64) {
  constexpr size_t kSize = 37;  // not a multiple of the inner loop
  for (const bool nesterov : {false, true}) {
    const std::vector<float> w = draw(kSize, 1);
    std::vector<float> velocity(kSize);
    std::vector<float> residual(kSize);
    std::vector<double> velocity64(kSize);
    std::vector<double> residual64(kSize);
    for (uint64_t step = 0; step < 10; ++step) {
      const std::vector<float> g = draw(kSize, 100 + step);
      accumulate({.scale = 0.5F, .limit = 0.25F, .decay = 0.125F, .momentum = 0.75F, .nesterov = nesterov}, g.data(),
                 w.data(), velocity.data(), residual.data(), kSize);
      for (size_t i = 0; i < kSize; ++i) {
        const double a = std::clamp(0.5 * static_cast<double>(g[i]), -0.25, 0.25) + 0.125 * static_cast<double>(w[i]);
        velocity64[i] = 0.75 * velocity64[i] + a;
        residual64[i] += nesterov ? a + 0.75 * velocity64[i] : velocity64[i];
      }
    }
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(static_cast<double>(velocity[i]), velocity64[i], 1e-5) << i;
      EXPECT_NEAR(static_cast<double>(residual[i]), residual64[i], 1e-5) << i;
    }
  }
}

// Two senders that share an element, with room for a third pair that is not sent.
const std::vector<GradientPair> kPairs = {{1, 2}, {3, -1}, {9, 7}, {3, 5}, {4, 0.5F}, {9, 7}};

TEST(Compression, AnElementOfSeveralSendersIsSubtractedOnce) {
  std::vector<float> weight(6, 10);
  std::vector<float> sums(6, 99);  // values of an earlier step
  subtract_pairs(kPairs.data(), 2, 3, 2, 0.5F, sums.data(), weight.data());
  EXPECT_EQ(weight, (std::vector<float>{10, 9, 10, 8, 9.75F, 10}));
}

TEST(Compression, TheSquaresAreThoseOfTheSums) {
  std::vector<float> sums(6, 99);
  EXPECT_EQ(squares_of_pairs(kPairs.data(), 2, 3, 2, sums.data()), 4 + 16 + 0.25);
  std::vector<float> weight(6, 10);
  subtract_pairs(kPairs.data(), 2, 3, 2, 0.5F, sums.data(), weight.data());
  EXPECT_EQ(weight, (std::vector<float>{10, 9, 10, 8, 9.75F, 10})) << "the squares do not change what is subtracted";
}

TEST(Compression, TheTrustRatioIsOneWithoutANorm) {
  EXPECT_EQ(trust_ratio(0.5, 0, 3), 1);
  EXPECT_EQ(trust_ratio(0.5, 3, 0), 1);
  EXPECT_DOUBLE_EQ(trust_ratio(0.5, 3, 2), 0.75 / (1 + 0.5e-8));
  EXPECT_TRUE(std::isnan(trust_ratio(0.5, 3, std::nan(""))));
}

}  // namespace
}  // namespace xrun::ops
