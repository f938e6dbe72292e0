#include "runtime/wall/token_bucket.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace xrun::runtime {
namespace {

TEST(TokenBucket, GivesTokensAtItsRate) {
  TokenBucket bucket(100);
  EXPECT_DOUBLE_EQ(bucket.take(50, 2.0), 2.5);
  EXPECT_DOUBLE_EQ(bucket.take(25, 2.0), 2.75) << "after the tokens that were taken before";
}

TEST(TokenBucket, DoesNotFillWhileNobodyTakes) {
  TokenBucket bucket(100);
  EXPECT_DOUBLE_EQ(bucket.take(100, 0), 1);
  EXPECT_DOUBLE_EQ(bucket.take(100, 60), 61) << "a use after a minute is not faster";
}

// A late thread asks as of the time at which it should have woken up, so the rate is kept.
TEST(TokenBucket, KeepsItsRateForUsersThatAskLate) {
  TokenBucket bucket(10);
  Seconds at = 3;
  for (int i = 0; i < 100; ++i) {
    at = bucket.take(1, at);
  }
  EXPECT_NEAR(at, 3 + 10, 1e-9);
}

// Users take a part each, in the order of the times at which they had their last part.
std::vector<Seconds> ends_of_users(const std::vector<int>& parts, TokenBucket& bucket) {
  std::vector<Seconds> at(parts.size(), 0);
  std::vector<int> left = parts;
  for (;;) {
    size_t next = parts.size();
    for (size_t user = 0; user < parts.size(); ++user) {
      if (left[user] > 0 && (next == parts.size() || at[user] < at[next])) {
        next = user;
      }
    }
    if (next == parts.size()) {
      return at;
    }
    at[next] = bucket.take(1, at[next]);
    --left[next];
  }
}

TEST(TokenBucket, SharesItsRateFairly) {
  TokenBucket bucket(1000);
  const std::vector<Seconds> ends = ends_of_users({100, 100, 400}, bucket);
  // Each has a third of the rate until two users end, then the last one has all of it.
  EXPECT_NEAR(ends[0], 0.3, 0.005);
  EXPECT_NEAR(ends[1], 0.3, 0.005);
  EXPECT_NEAR(ends[2], 0.6, 0.005);
}

TEST(TokenBucket, GivesNoMoreThanItsRateAllows) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TokenBucket bucket(7);
  Seconds asked = 0;
  double taken = 0;
  Seconds before = 0;
  for (int i = 0; i < 1000; ++i) {
    asked += static_cast<double>(random() % 1000) / 1000;
    const double tokens = static_cast<double>(random() % 20);
    taken += tokens;
    const Seconds given = bucket.take(tokens, asked);
    EXPECT_GE(given, before) << "tokens are given in the order of the calls";
    EXPECT_GE(given, asked + tokens / 7 - 1e-9);
    EXPECT_GE(given, taken / 7 - 1e-9);
    before = given;
  }
}

}  // namespace
}  // namespace xrun::runtime
