// Ranks that are threads, connected with each other by TCP on this host.
#include "runtime/comm/ranks/rank_watch.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "runtime/comm/ranks/rank_meeting.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;
using testing::on_worlds;

void pause(Seconds time) { std::this_thread::sleep_for(std::chrono::duration<double>(time)); }

// Waits until a rank is lost. Returns nullopt after `patience` seconds.
std::optional<LostRank> wait_for_loss(const RankWatch& watch, Seconds patience = 20) {
  for (Seconds waited = 0; waited < patience && !watch.lost(); waited += 0.005) {
    pause(0.005);
  }
  return watch.lost();
}

// Returns options for a rank that sends no heartbeats and detects no loss.
WatchOptions frozen() { return {.limits = {.silence = 1e6, .period = 1e3}}; }

std::unique_ptr<RankWatch> watch(int rank, std::vector<Socket> sockets, WatchOptions options = {}) {
  auto started = RankWatch::start(
      rank, std::move(sockets), [](const LostRank&) {}, std::move(options));
  EXPECT_TRUE(started.ok());
  return std::move(started).value();
}

TEST(RankWatch, RanksThatEndAreNotLost) {
  for (const int ranks : {2, 3, 5}) {
    on_worlds(ranks, [&](World& world) {
      auto sockets = meet_ranks(world, 10);
      ASSERT_TRUE(sockets.ok()) << sockets.error().message;
      const auto own = watch(world.rank(), std::move(*sockets));
      pause(0.3 * world.rank());  // the ranks end one after another
      EXPECT_FALSE(own->lost()) << own->lost()->how;
    });
  }
}

TEST(RankWatch, AConnectionThatClosesWithoutNoticeMeansThatTheRankDied) {
  std::atomic<double> slowest = 0;
  on_worlds(4, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    if (world.rank() == 2) {
      ASSERT_TRUE(world.agree(Status()).ok());
      sockets->clear();  // closes the connections, as if the process was killed
      ASSERT_TRUE(world.agree(Status()).ok());
      return;
    }
    std::atomic<int> calls = 0;
    auto own = RankWatch::start(world.rank(), std::move(*sockets), [&](const LostRank&) { ++calls; });
    ASSERT_TRUE(own.ok());
    ASSERT_TRUE(world.agree(Status()).ok());
    const auto begin = std::chrono::steady_clock::now();
    const auto lost = wait_for_loss(**own);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    slowest = std::max(slowest.load(), seconds);
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->rank, 2);
    ASSERT_TRUE(world.agree(Status()).ok());
    own->reset();
    EXPECT_EQ(calls, 1);
  });
  EXPECT_LT(slowest, 2) << "a moment";
  RecordProperty("seconds", std::to_string(slowest));
}

TEST(RankWatch, ASilentRankIsDeclaredLostByAllOthers) {
  on_worlds(3, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    const bool silent = world.rank() == 1;
    const auto own = watch(world.rank(), std::move(*sockets),
                           silent ? frozen() : WatchOptions{.limits = {.silence = 0.8, .period = 0.05}});
    if (!silent) {
      const auto lost = wait_for_loss(*own);
      ASSERT_TRUE(lost.has_value());
      EXPECT_EQ(lost->rank, 1);
      EXPECT_THAT(lost->how, ::testing::AnyOf("it was silent for 0.8 s", "it was silent for 0.8 s, as rank 0 saw",
                                              "it was silent for 0.8 s, as rank 2 saw"));
    }
    ASSERT_TRUE(world.agree(Status()).ok());
  });
}

// Two ranks receive nothing from each other, because their link is cut. They report it to a third rank.
TEST(RankWatch, ACutLinkIsReportedToRanksWithIntactLinks) {
  on_worlds(3, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    if (world.rank() != 0) {
      (*sockets)[static_cast<size_t>(3 - world.rank())].close();
    }
    std::vector<Socket> kept = std::move(*sockets);
    const auto own = watch(world.rank(), std::move(kept), {.limits = {.silence = 0.8, .period = 0.05}});
    const auto lost = wait_for_loss(*own);
    ASSERT_TRUE(lost.has_value());
    EXPECT_NE(lost->rank, 0);
    ASSERT_TRUE(world.agree(Status()).ok());
  });
}

// For a while rank 1 reports that its work is late, and then that it hangs. All ranks learn of each report once.
TEST(RankWatch, LateWorkIsReportedAndAHangingRankIsDeclaredLost) {
  on_worlds(3, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    std::atomic<int> reports = 0;
    std::atomic<int> late = 0;
    std::atomic<int> late_rank = -1;
    WatchOptions options{.limits = {.silence = 2, .period = 0.02}};
    options.work = [&] {
      const int count = ++reports;
      WorkReport report{.work = 7, .step = 12, .seconds = 0.1 * count, .usual = 0.5};
      report.state = world.rank() != 1 || count < 10 ? WorkReport::kFine
                     : count < 40                    ? WorkReport::kLate
                                                     : WorkReport::kHangs;
      return report;
    };
    options.describe = [](const WorkReport& report) {
      return "work " + std::to_string(report.work) + " of step " + std::to_string(report.step);
    };
    options.on_late = [&](int rank, const WorkReport& report) {
      late_rank = rank;
      late += report.usual == 0.5 ? 1 : 0;
    };
    const auto own = watch(world.rank(), std::move(*sockets), std::move(options));
    const auto lost = wait_for_loss(*own);
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(*lost, (LostRank{.rank = 1, .how = "work 7 of step 12", .hangs = true}));
    EXPECT_EQ(late, 1);
    EXPECT_EQ(late_rank, 1);
    ASSERT_TRUE(world.agree(Status()).ok());
  });
}

// A process that was stopped learns that the others ended meanwhile, and does not report another rank as lost.
TEST(RankWatch, AFrozenRankLearnsThatItWasDeclaredLost) {
  on_worlds(2, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    if (world.rank() == 0) {
      const auto own = watch(0, std::move(*sockets), {.limits = {.silence = 0.8, .period = 0.05}});
      const auto lost = wait_for_loss(*own);
      ASSERT_TRUE(lost.has_value());
      EXPECT_EQ(lost->rank, 1);
      return;
    }
    pause(2);  // meanwhile the others declare it lost, and their messages wait in its socket
    const auto own = watch(1, std::move(*sockets));
    const auto lost = wait_for_loss(*own);
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->rank, 1);
  });
}

TEST(RankWatch, ARankThatDoesNotEndAfterALossCallsOnStuck) {
  on_worlds(2, [&](World& world) {
    auto sockets = meet_ranks(world, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    if (world.rank() == 1) {
      return;
    }
    std::atomic<int> stuck = 0;
    const auto own =
        watch(0, std::move(*sockets), {.grace = 0.1, .on_stuck = [&](const LostRank& lost) { stuck += lost.rank; }});
    for (int i = 0; i < 2000 && stuck == 0; ++i) {
      pause(0.005);
    }
    EXPECT_EQ(stuck, 1);
  });
}

// A foreign process that connects to the port is not taken for a rank and delays no rank, whether it sends nothing,
// wrong data or too much data.
TEST(RankMeeting, ForeignConnectionsAreRejected) {
  // A world whose messages the test can read, because they contain the port of rank 0.
  class Overheard final : public Peers {
   public:
    Overheard(World& world, std::function<void(const std::string&)> use) : world_(world), use_(std::move(use)) {}
    int rank() const override { return world_.rank(); }
    int count() const override { return world_.count(); }
    std::string name(int rank) const override { return world_.name(rank); }
    Result<std::vector<std::string>> gather(Result<std::string> mine) override {
      auto all = world_.gather(std::move(mine));
      if (all.ok()) {
        use_((*all)[0]);
      }
      return all;
    }
    using Peers::agree;
    Outcome agree(Outcome mine) override { return world_.agree(std::move(mine)); }

   private:
    World& world_;
    std::function<void(const std::string&)> use_;
  };
  on_worlds(2, [&](World& world) {
    std::vector<Socket> strangers;
    Overheard peers(world, [&](const std::string& text) {
      std::istringstream in(text);
      std::string run;
      int port = 0;
      if (world.rank() != 1 || !(in >> run >> port)) {
        return;
      }
      std::string error;
      for (int i = 0; i < 40; ++i) {
        strangers.push_back(connect_to("127.0.0.1", port, 2, error));
        const std::string words = i % 2 == 0 ? std::string(1000, 'x') : "xrunrank" + std::string(i, '0');
        (void)write_whole(strangers.back(), std::as_bytes(std::span(words)));
      }
    });
    auto sockets = meet_ranks(peers, 10);
    ASSERT_TRUE(sockets.ok()) << sockets.error().message;
    const auto own = watch(world.rank(), std::move(*sockets), {.limits = {.silence = 0.8, .period = 0.05}});
    pause(1.5);
    EXPECT_FALSE(own->lost()) << own->lost()->how;
    ASSERT_TRUE(world.agree(Status()).ok());
  });
}

// Rank 1 announces a port on which nothing listens.
TEST(RankMeeting, RanksThatCannotReachEachOtherAreNamed) {
  on_worlds(2, [&](World& world) {
    if (world.rank() == 0) {
      std::string error;
      int port = 0;
      listen_on_any_port(port, error).close();
      ASSERT_TRUE(world.gather("00 " + std::to_string(port) + " 127.0.0.1").ok());
      const auto problems = world.gather(std::string());
      ASSERT_TRUE(problems.ok());
      EXPECT_THAT((*problems)[1], HasSubstr("it cannot reach rank 0 on a: 127.0.0.1 port "));
      return;
    }
    const auto sockets = meet_ranks(world, 10);
    ASSERT_FALSE(sockets.ok());
    EXPECT_EQ(sockets.error().code, "XG0841");
    EXPECT_THAT(sockets.error().message, HasSubstr("rank 1 on b is not connected to all other ranks"));
    EXPECT_THAT(sockets.error().message, HasSubstr("refused"));
  });
}

}  // namespace
}  // namespace xrun::runtime
