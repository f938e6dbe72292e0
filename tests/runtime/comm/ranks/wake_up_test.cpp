// Wake-ups between threads and processes.
#include <gtest/gtest.h>
#include <thread>

#include "runtime/comm/ranks/wake_up.h"

namespace xrun::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Bell, IsRungOnceForAllRingsBeforeAWait) {
  const Bell bell;
  EXPECT_FALSE(bell.wait(microseconds(10)));
  bell.ring();
  bell.ring();
  EXPECT_TRUE(bell.wait(microseconds(0)));
  EXPECT_FALSE(bell.wait(microseconds(10)));
}

TEST(Bell, IsRungByItsName) {
  const Bell mine;
  const Bell other;
  ASSERT_FALSE(mine.name().empty());
  EXPECT_NE(mine.name(), other.name());
  EXPECT_TRUE(other.ring(mine.name()));
  EXPECT_TRUE(mine.wait(microseconds(0)));
  EXPECT_FALSE(other.wait(microseconds(0)));
  EXPECT_FALSE(mine.ring("xrun-of-nobody"));
  EXPECT_FALSE(mine.ring(""));
}

TEST(Bell, EndsAWait) {
  const Bell mine;
  const Bell other;
  std::thread ringer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    other.ring(mine.name());
  });
  EXPECT_TRUE(mine.wait(milliseconds(20'000)));
  ringer.join();
}

TEST(Bell, TakesAnyNumberOfRingsThatNobodyWaitsFor) {
  const Bell mine;
  const Bell other;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(other.ring(mine.name()));
  }
  EXPECT_TRUE(mine.wait(microseconds(0)));
  EXPECT_FALSE(mine.wait(microseconds(10)));
}

}  // namespace
}  // namespace xrun::runtime
