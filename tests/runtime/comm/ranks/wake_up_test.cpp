// Wake-ups between threads and processes.
#include "runtime/comm/ranks/wake_up.h"

#include <gtest/gtest.h>
#include <thread>

namespace xrun::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(WakeUp, SeveralSignalsBeforeAWaitWakeItOnce) {
  const WakeUp wake_up;
  EXPECT_FALSE(wake_up.wait(microseconds(10)));
  wake_up.send();
  wake_up.send();
  EXPECT_TRUE(wake_up.wait(microseconds(0)));
  EXPECT_FALSE(wake_up.wait(microseconds(10)));
}

TEST(WakeUp, CanBeSentByName) {
  const WakeUp mine;
  const WakeUp other;
  ASSERT_FALSE(mine.name().empty());
  EXPECT_NE(mine.name(), other.name());
  EXPECT_TRUE(other.send(mine.name()));
  EXPECT_TRUE(mine.wait(microseconds(0)));
  EXPECT_FALSE(other.wait(microseconds(0)));
  EXPECT_FALSE(mine.send("xrun-of-nobody"));
  EXPECT_FALSE(mine.send(""));
}

TEST(WakeUp, EndsAWait) {
  const WakeUp mine;
  const WakeUp other;
  std::thread ringer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    other.send(mine.name());
  });
  EXPECT_TRUE(mine.wait(milliseconds(20'000)));
  ringer.join();
}

TEST(WakeUp, AnyNumberOfUnreceivedSignalsWakeOnce) {
  const WakeUp mine;
  const WakeUp other;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(other.send(mine.name()));
  }
  EXPECT_TRUE(mine.wait(microseconds(0)));
  EXPECT_FALSE(mine.wait(microseconds(10)));
}

}  // namespace
}  // namespace xrun::runtime
