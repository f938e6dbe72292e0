#include "runtime/comm/ranks/heartbeats.h"

#include <gtest/gtest.h>
#include <random>

namespace xrun::runtime {
namespace {

constexpr Seconds kLimit = 2.5;

TEST(Heartbeats, ARankIsLostOnceItHasBeenSilentForLongerThanTheLimit) {
  Heartbeats beats(3, 1, kLimit, 100);
  for (Seconds now = 100; now <= 110; now += 0.25) {
    EXPECT_EQ(beats.tick(now), 0);
    beats.heard(0, now);
    EXPECT_EQ(beats.silent(now), now <= 100 + kLimit ? std::nullopt : std::optional(2)) << now;
  }
}

TEST(Heartbeats, NameTheRankThatHasBeenSilentForTheLongestTime) {
  Heartbeats beats(4, 0, kLimit, 0);
  beats.heard(1, 0.2);
  beats.heard(2, 0.1);
  beats.heard(3, 0.3);
  EXPECT_EQ(beats.silent(3), 2);
}

TEST(Heartbeats, ARankThatHasLeftIsNotReportedAsSilent) {
  Heartbeats beats(2, 0, kLimit, 0);
  beats.leave(1);
  EXPECT_EQ(beats.silent(1000), std::nullopt);
}

// While a machine sleeps or a process is stopped, the rank receives no heartbeats. That silence is not a fault of the
// other ranks.
TEST(Heartbeats, AStoppedRankRestartsTheTimeLimitsOfOthers) {
  Heartbeats beats(2, 0, kLimit, 0);
  EXPECT_EQ(beats.tick(0.25), 0);
  EXPECT_EQ(beats.tick(60.25), 60);
  EXPECT_EQ(beats.silent(60.25), std::nullopt);
  for (Seconds now = 60.5; now <= 60.25 + kLimit; now += 0.25) {
    EXPECT_EQ(beats.tick(now), 0);
    EXPECT_EQ(beats.silent(now), std::nullopt);
  }
  EXPECT_EQ(beats.silent(60.25 + kLimit + 0.25), 1);
}

// Heartbeats come every quarter of a second and up to a second late. No rank is lost in an hour, and a rank that stops
// is detected within the limit and one check.
TEST(Heartbeats, DelaysUpToASecondCauseNoLossInAnHour) {
  constexpr uint64_t kSeed = 20261124;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> delay(0, 1);
  Heartbeats beats(4, 3, kLimit, 0);
  double due[3] = {};
  constexpr double kStops = 3600;
  for (Seconds now = 0; now < kStops + kLimit + 1.3; now += 0.25) {
    ASSERT_EQ(beats.tick(now), 0);
    for (int rank = 0; rank < 3; ++rank) {
      if (now >= due[rank] && !(rank == 1 && now >= kStops)) {
        beats.heard(rank, now);
        due[rank] = now + 0.25 + delay(random);
      }
    }
    if (now <= kStops) {
      ASSERT_EQ(beats.silent(now), std::nullopt) << "seed " << kSeed << " at " << now;
    }
  }
  EXPECT_EQ(beats.silent(kStops + kLimit + 1.3), 1);
}

}  // namespace
}  // namespace xrun::runtime
