#include "runtime/train/watch/work_deadline.h"

#include <gtest/gtest.h>
#include <random>

namespace xrun::runtime {
namespace {

using Cause = WorkDeadline::Cause;
constexpr Seconds kTimeout = 600;
constexpr Seconds kLook = 0.25;

// The work of one rank, on a clock of its own. The watch checks it four times per second.
class Rank {
 public:
  explicit Rank(Seconds timeout = kTimeout) : deadline_(timeout) {}

  void step(Seconds seconds, Seconds data = 0, Cause cause = Cause::kOwn) {
    if (data > 0) {
      work(Work::kData, data, cause);
    }
    work(Work::kStep, seconds, cause);
    ++done_;
  }
  void work(Work work, Seconds seconds, Cause cause = Cause::kOwn) {
    deadline_.begin({.work = work, .done = done_}, now_);
    pass(seconds, cause);
  }
  // Lets time pass in which no new work begins, and returns the last state.
  WorkDeadline::State pass(Seconds seconds, Cause cause = Cause::kOwn) {
    const Seconds end = now_ + seconds;
    for (; next_look_ <= end; next_look_ += kLook) {
      now_ = next_look_;
      state_ = deadline_.look(now_, cause);
      late_ += state_.late ? 1 : 0;
      hangs_ += state_.hangs ? 1 : 0;
    }
    now_ = end;
    return state_;
  }
  // Stops the process, and its watch with it.
  void stop(Seconds seconds) {
    now_ += seconds;
    next_look_ = now_;
  }
  // Returns the time from now on until the state is late or hangs.
  Seconds until(bool WorkDeadline::State::*flag, Cause cause = Cause::kOwn) {
    const Seconds begin = now_;
    while (!(pass(kLook, cause).*flag)) {
      if (now_ - begin > 1e6) {
        return -1;
      }
    }
    return now_ - begin;
  }

  int late() const { return late_; }
  int hangs() const { return hangs_; }
  const WorkDeadline::State& state() const { return state_; }

 private:
  WorkDeadline deadline_;
  WorkDeadline::State state_;
  Seconds now_ = 100;
  Seconds next_look_ = 100;
  int64_t done_ = 0;
  int late_ = 0;
  int hangs_ = 0;
};

TEST(UsualTime, IsTheSecondLongestOfTheLastSixtyFour) {
  UsualTime usual;
  usual.add(1);
  usual.add(9);
  EXPECT_EQ(usual.longest_but_one(), 0);
  usual.add(2);
  EXPECT_EQ(usual.longest_but_one(), 2);
  usual.add(9);
  EXPECT_EQ(usual.longest_but_one(), 9);
  for (int i = 0; i < 64; ++i) {
    usual.add(0.5);
  }
  EXPECT_EQ(usual.longest_but_one(), 0.5);
}

TEST(WorkDeadline, ShortStepsAreLateAfterThreeSecondsAndHangAfterTheTimeout) {
  Rank rank;
  for (int i = 0; i < 100; ++i) {
    rank.step(0.01, 0.001);
  }
  EXPECT_EQ(rank.late(), 0);
  rank.work(Work::kData, 0.01);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::late), 3, 2 * kLook);
  EXPECT_EQ(rank.state().work, Work::kData);
  EXPECT_EQ(rank.state().step, 101);
  EXPECT_NEAR(rank.state().usual, 0.011, 1e-9);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::hangs), kTimeout - 3, 2 * kLook);
  EXPECT_NEAR(rank.state().seconds, kTimeout, 2 * kLook);
}

TEST(WorkDeadline, LongStepsHaveLongDeadlines) {
  Rank rank;
  for (int i = 0; i < 5; ++i) {
    rank.step(50);
  }
  EXPECT_EQ(rank.late(), 0);
  rank.work(Work::kStep, 0);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::late), 5 * 50, 2 * kLook);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::hangs), (20 - 5) * 50, 2 * kLook);
}

TEST(WorkDeadline, TheFirstStepsHaveADeadlineOfAMinute) {
  Rank rank;
  rank.step(40);
  rank.step(30);
  EXPECT_EQ(rank.late(), 0);
  rank.work(Work::kStep, 0);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::late), 60, 2 * kLook);
}

// Evaluations, saves, builds of graphs and steps of another size do not change the usual time of steps.
TEST(WorkDeadline, OtherWorkDoesNotChangeTheUsualTimeOfSteps) {
  Rank rank;
  for (int i = 0; i < 200; ++i) {
    rank.step(0.02);
    if (i % 20 == 19) {
      rank.work(Work::kEvaluate, 40);
      rank.work(Work::kSave, 30);
      rank.work(Work::kPrepare, 500);
    }
  }
  EXPECT_EQ(rank.late(), 0);
  EXPECT_EQ(rank.hangs(), 0);
  rank.work(Work::kStep, 0);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::late), 3, 2 * kLook);
}

TEST(WorkDeadline, DeadlinesFollowStepsThatBecomeLongerPermanently) {
  Rank rank;
  for (int i = 0; i < 100; ++i) {
    rank.step(0.5);
  }
  rank.step(6);
  rank.step(6);
  EXPECT_GT(rank.late(), 0);
  const int before = rank.late();
  for (int i = 0; i < 100; ++i) {
    rank.step(6);
  }
  EXPECT_EQ(rank.late(), before);
}

TEST(WorkDeadline, ARankThatWaitsForAnotherIsNotTheLateOne) {
  Rank waits;
  Rank hangs;
  for (int i = 0; i < 100; ++i) {
    waits.step(0.01);
    hangs.step(0.01);
  }
  waits.work(Work::kStep, 0);
  hangs.work(Work::kSave, 0);
  waits.pass(kTimeout + 10, Cause::kOthers);
  hangs.pass(kTimeout + 10, Cause::kOwn);
  EXPECT_EQ(waits.late(), 0);
  EXPECT_EQ(waits.hangs(), 0);
  EXPECT_GT(hangs.hangs(), 0);
}

// If a message is lost, all ranks wait for each other.
TEST(WorkDeadline, RanksThatWaitForOneAnotherHangAfterTwiceTheTimeout) {
  Rank rank;
  for (int i = 0; i < 100; ++i) {
    rank.step(0.01);
  }
  rank.work(Work::kStep, 0);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::hangs, Cause::kOthers), 2 * kTimeout, 2 * kLook);
  EXPECT_EQ(rank.late(), 0);
}

// Time counts from the end of a wait: a step may wait long for a slow rank and then compute.
TEST(WorkDeadline, AWaitDuringAStepRestartsItsDeadline) {
  Rank rank;
  for (int i = 0; i < 100; ++i) {
    rank.step(0.01);
  }
  rank.work(Work::kStep, 2);
  for (int i = 0; i < 100; ++i) {
    rank.pass(50, Cause::kOthers);
    rank.pass(2.5, Cause::kOwn);
  }
  EXPECT_EQ(rank.late(), 0);
  EXPECT_EQ(rank.hangs(), 0);
}

TEST(WorkDeadline, ACallForMessagesThatDoesNotReturnIsLateInAnyWork) {
  Rank rank;
  rank.work(Work::kPrepare, 0);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::late, Cause::kMessages), 3, 2 * kLook);
  EXPECT_NEAR(rank.until(&WorkDeadline::State::hangs, Cause::kMessages), kTimeout - 3, 2 * kLook);
}

// A stopped process or a sleeping machine does no work, so it misses no deadline.
TEST(WorkDeadline, TimeInWhichTheProcessIsStoppedDoesNotCount) {
  Rank rank;
  for (int i = 0; i < 10; ++i) {
    rank.step(0.01);
  }
  rank.work(Work::kStep, 0.5);
  for (int i = 0; i < 2; ++i) {
    rank.stop(36'000);
    rank.pass(0.25);
  }
  EXPECT_EQ(rank.late(), 0);
  EXPECT_EQ(rank.hangs(), 0);
}

TEST(WorkDeadline, OpeningAndPreparingMayTakeAnyTime) {
  for (const Work work : {Work::kOpen, Work::kPrepare, Work::kLoad, Work::kCopy, Work::kNone}) {
    Rank rank;
    rank.work(work, 100 * kTimeout);
    EXPECT_EQ(rank.hangs(), 0);
    EXPECT_EQ(rank.late() > 0, work != Work::kNone);
  }
}

TEST(WorkDeadline, NothingHangsWithoutATimeout) {
  Rank rank(0);
  for (const Work work : {Work::kStep, Work::kSave, Work::kOpen}) {
    rank.work(work, 1e5);
  }
  rank.work(Work::kStep, 1e5, Cause::kOthers);
  rank.work(Work::kStep, 1e5, Cause::kMessages);
  EXPECT_EQ(rank.hangs(), 0);
  EXPECT_GT(rank.late(), 0);
}

// In an hour of steps whose times vary by a factor of ten, with waits, evaluations and saves, nothing is reported as
// late.
TEST(WorkDeadline, NothingIsLateInASteadyHour) {
  constexpr uint64_t kSeed = 20261124;
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> share(0.2, 2);
  Rank rank;
  for (Seconds passed = 0; passed < 3600;) {
    const Seconds own = share(random);
    rank.step(own, share(random) / 10);
    rank.pass(share(random), Cause::kOthers);
    passed += own + 1;
    if (random() % 50 == 0) {
      rank.work(Work::kSave, 5 * share(random));
      rank.work(Work::kEvaluate, share(random));
    }
  }
  EXPECT_EQ(rank.late(), 0) << "seed " << kSeed;
}

}  // namespace
}  // namespace xrun::runtime
