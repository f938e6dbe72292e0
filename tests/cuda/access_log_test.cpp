// The log of accesses, and the pairs of accesses that nothing orders.
#include "tests/support/cuda/access_log.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace xrun::cuda::fake {
namespace {

TEST(AccessLog, AReadThatNothingOrdersAfterAWriteIsAConflict) {
  AccessLog log;
  Clock first;
  Clock second;
  const Accessor writer{.actor = 1, .time = first.advance(1), .what = "writer"};
  EXPECT_FALSE(log.record(100, 50, true, writer, first));
  const Accessor reader{.actor = 2, .time = second.advance(2), .what = "reader"};
  EXPECT_FALSE(log.record(150, 10, false, reader, second)) << "other bytes";
  const auto conflict = log.record(140, 20, false, reader, second);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->other.what, "writer");
  EXPECT_EQ(conflict->address, 140u);
  EXPECT_TRUE(conflict->other_writes);
  second.join(first);
  EXPECT_FALSE(log.record(100, 50, false, reader, second)) << "the write happened before";
}

TEST(AccessLog, AnAccessThatDidNotHappenBeforeAClockIsLater) {
  AccessLog log;
  Clock stream;
  Clock host;
  log.record(0, 8, false, {.actor = 1, .time = stream.advance(1), .what = "reader"}, stream);
  ASSERT_TRUE(log.find_later(4, 100, host));
  EXPECT_FALSE(log.find_later(8, 100, host));
  host.join(stream);
  EXPECT_FALSE(log.find_later(0, 8, host));
  log.forget(0, 8);
  EXPECT_FALSE(log.find_later(0, 8, Clock()));
}

// The oracle keeps all accesses of each byte.
TEST(AccessLog, AgreesWithAListOfAllAccesses) {
  constexpr uint64_t kSeed = 20261201;
  std::mt19937_64 random(kSeed);
  struct Past {
    Accessor accessor;
    bool write;
  };
  int conflicts = 0;
  for (int round = 0; round < 200; ++round) {
    AccessLog log;
    std::vector<std::vector<Past>> bytes(40);
    std::vector<Clock> clocks(4);
    for (int i = 0; i < 20; ++i) {
      const size_t actor = random() % clocks.size();
      if (random() % 2 == 0) {
        clocks[actor].join(clocks[random() % clocks.size()]);
      }
      const Accessor accessor{.actor = actor, .time = clocks[actor].advance(actor), .what = std::to_string(i)};
      const uint64_t begin = random() % 30;
      const uint64_t count = 1 + random() % 10;
      const bool write = random() % 2 == 0;
      // The log drops all earlier accesses to a byte when the byte is written, even those that conflict.
      bool expected = false;
      for (uint64_t at = begin; at < begin + count; ++at) {
        std::vector<Past>& past = bytes[at];
        expected |= std::ranges::any_of(past, [&](const Past& other) {
          return (write || other.write) && !happened_before(other.accessor, clocks[actor]);
        });
        if (write) {
          past.clear();
        }
        past.push_back({accessor, write});
      }
      const auto conflict = log.record(begin, count, write, accessor, clocks[actor]);
      ASSERT_EQ(conflict.has_value(), expected) << "seed " << kSeed << ", round " << round << ", access " << i;
      conflicts += expected ? 1 : 0;
    }
  }
  EXPECT_GT(conflicts, 500);
}

}  // namespace
}  // namespace xrun::cuda::fake
