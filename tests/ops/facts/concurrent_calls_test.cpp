#include "ops/facts/concurrent_calls.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace xrun::ops {
namespace {

constexpr int kTimed = 7;

// Spins for a time, so that a call uses processor time.
void compute(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(ConcurrentCalls, OneThreadCallsInTheThreadOfTheCaller) {
  std::set<std::thread::id> threads;
  int before = 0;
  int calls = 0;
  const auto time = time_calls(1, [&]() -> Result<TimedCall> {
    return TimedCall{[&] { ++before; },
                     [&]() -> Status {
                       threads.insert(std::this_thread::get_id());
                       ++calls;
                       compute(1e-3);
                       return {};
                     }};
  });
  ASSERT_TRUE(time.ok());
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  EXPECT_EQ(calls, 1 + kTimed) << "the first call is a warm-up";
  EXPECT_GE(before, kTimed);
  EXPECT_GT(*time, 0);
  EXPECT_LT(*time, 0.1);
}

// Every call of a round begins only after all threads have ended the round before.
TEST(ConcurrentCalls, ThreadsBeginEachCallTogether) {
  for (const int threads : {2, 3, 5}) {
    std::mutex lock;
    std::map<std::thread::id, int> made;  // calls of each thread
    bool apart = false;
    const auto time = time_calls(threads, [&]() -> Result<TimedCall> {
      return TimedCall{{}, [&]() -> Status {
                         const std::lock_guard guard(lock);
                         const int mine = made[std::this_thread::get_id()]++;
                         for (const auto& [thread, calls] : made) {
                           apart |= mine > 1 && calls < mine;  // the warm-up is not made together
                         }
                         return {};
                       }};
    });
    ASSERT_TRUE(time.ok());
    EXPECT_EQ(made.size(), static_cast<size_t>(threads));
    for (const auto& [thread, calls] : made) {
      EXPECT_EQ(calls, 1 + kTimed);
    }
    EXPECT_FALSE(apart) << threads << " threads";
  }
}

TEST(ConcurrentCalls, EveryThreadHasOperandsOfItsOwn) {
  std::atomic<int> made{0};
  ASSERT_TRUE(time_calls(4, [&]() -> Result<TimedCall> {
                ++made;
                return TimedCall{{}, []() -> Status { return {}; }};
              }).ok());
  EXPECT_EQ(made, 4);
}

TEST(ConcurrentCalls, LongCallsAreFewer) {
  std::atomic<int> calls{0};
  ASSERT_TRUE(time_calls(2, [&]() -> Result<TimedCall> {
                return TimedCall{{}, [&]() -> Status {
                                   ++calls;
                                   compute(0.3);
                                   return {};
                                 }};
              }).ok());
  EXPECT_LT(calls, 2 * (1 + kTimed));
  EXPECT_EQ(calls % 2, 0) << "all threads make as many calls";
}

// Whichever thread fails, and in whichever call, the others end, and its error is returned.
TEST(ConcurrentCalls, AnErrorOfOneThreadEndsAll) {
  for (const int failing_call : {-1, 0, 1, 4}) {  // -1: the operands cannot be made
    for (int failing = 0; failing < 3; ++failing) {
      std::atomic<int> threads{0};
      const auto time = time_calls(3, [&]() -> Result<TimedCall> {
        const bool fails = threads++ == failing;
        if (fails && failing_call < 0) {
          return Error{ErrorKind::kWorld, "XG0002", "no operands", ""};
        }
        const auto left = std::make_shared<int>(failing_call);
        return TimedCall{
            {}, [fails, left]() -> Status {
              return fails && (*left)-- == 0 ? Status(Error{ErrorKind::kWorld, "XG0002", "no call", ""}) : Status();
            }};
      });
      ASSERT_FALSE(time.ok());
      EXPECT_EQ(time.error().message, failing_call < 0 ? "no operands" : "no call");
    }
  }
}

}  // namespace
}  // namespace xrun::ops
