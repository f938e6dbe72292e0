#include "graph/layouts/compression.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

TEST(Compression, TheNumberOfPairsIsRoundedUpAndAtLeastOne) {
  EXPECT_EQ(pairs_of(1000, 0.001), 1);
  EXPECT_EQ(pairs_of(1001, 0.001), 2);
  EXPECT_EQ(pairs_of(5, 0.001), 1);
  EXPECT_EQ(pairs_of(5, 1), 5);
  EXPECT_EQ(pairs_of(0, 0.5), 0);
}

TEST(Compression, TheDensityFallsInFourPartsOfTheWarmup) {
  const CompressSpec compress{.density = 0.001, .on = {}, .warmup = TrainSpan{100, TrainSpan::kSteps}, .span = {}};
  EXPECT_EQ(density_at(compress, 100, 0), 0.25);
  EXPECT_EQ(density_at(compress, 100, 24), 0.25);
  EXPECT_EQ(density_at(compress, 100, 25), 0.0625);
  EXPECT_EQ(density_at(compress, 100, 50), 0.015625);
  EXPECT_EQ(density_at(compress, 100, 99), 0.00390625);
  EXPECT_EQ(density_at(compress, 100, 100), 0.001);
  EXPECT_EQ(largest_density(compress), 0.25);
}

TEST(Compression, TheDensityOfTheWarmupIsAtLeastThatOfLaterSteps) {
  const CompressSpec compress{.density = 0.1, .on = {}, .warmup = TrainSpan{8, TrainSpan::kSteps}, .span = {}};
  EXPECT_EQ(density_at(compress, 8, 0), 0.25);
  EXPECT_EQ(density_at(compress, 8, 2), 0.1);
  EXPECT_EQ(density_at(compress, 8, 7), 0.1);
  CompressSpec whole = compress;
  whole.density = 1;
  EXPECT_EQ(largest_density(whole), 1);
  whole.warmup.reset();
  EXPECT_EQ(density_at(whole, 0, 0), 1);
}

}  // namespace
}  // namespace xrun
