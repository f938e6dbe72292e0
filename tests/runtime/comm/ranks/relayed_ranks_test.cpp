// Ranks whose connections pass through relays watch each other, in real time, over links that flap, are slow, or are
// cut.
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "graph/os/clock.h"
#include "runtime/comm/ranks/rank_meeting.h"
#include "runtime/comm/ranks/rank_watch.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/runs/rank_worlds.h"
#include "tests/support/hosts/tcp_relay.h"

namespace xrun::runtime {
namespace {

using testing::on_worlds;
using xrun::testing::TcpRelay;

constexpr int kRanks = 3;
constexpr WatchLimits kLimits{.silence = 1, .period = 0.05};

void pause(Seconds time) { std::this_thread::sleep_for(std::chrono::duration<double>(time)); }

// Announces the port of a relay in place of this rank's port, so that all higher ranks connect to the relay.
class Relayed final : public Peers {
 public:
  explicit Relayed(World& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int count() const override { return world_.count(); }
  std::string name(int rank) const override { return world_.name(rank); }
  Result<std::vector<std::string>> gather(Result<std::string> mine) override {
    std::istringstream in(mine.ok() ? *mine : "");
    std::string run;
    int port = 0;
    if (relay == nullptr && in >> run >> port) {
      relay = std::make_unique<TcpRelay>(port);
      mine = fmt::format("{} {} 127.0.0.1", run, relay->port());
    }
    return world_.gather(std::move(mine));
  }
  using Peers::agree;
  Outcome agree(Outcome mine) override { return world_.agree(std::move(mine)); }

  std::unique_ptr<TcpRelay> relay;

 private:
  World& world_;
};

enum Kind : uint64_t { kFlaps, kSlow, kCutOff, kKinds };

// Rank 0 can be reached only through its relay, so a fault of the relay affects rank 0 alone.
void play(Kind kind, std::mt19937_64& random, TcpRelay& relay) {
  const auto draw = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  switch (kind) {
    case kFlaps:
      for (int flap = 0; flap < 3; ++flap) {
        relay.hold(true);
        pause(draw(0.05, 0.4));
        relay.hold(false);
        pause(draw(0.1, 0.3));
      }
      return;
    case kSlow:
      relay.delay(draw(0.05, 0.3));
      pause(1.5);
      return;
    default:
      pause(draw(0, 0.3));
      relay.hold(true);
  }
}

TEST(RelayedRanks, OnlyTheRankThatIsCutOffIsLost) {
  const uint64_t seed = xrun::testing::fault_seed(20261124);
  const int64_t scripts = xrun::testing::fault_runs(6, 60);
  for (int64_t number = 0; number < scripts; ++number) {
    const auto kind = static_cast<Kind>(static_cast<uint64_t>(number) % kKinds);
    SCOPED_TRACE(fmt::format("script {} of seed {}, kind {}", number, seed, static_cast<int>(kind)));
    std::atomic<Seconds> begun = 0;
    on_worlds(kRanks, [&](World& world) {
      Relayed peers(world);
      auto sockets = meet_ranks(peers, 10);
      ASSERT_TRUE(sockets.ok()) << sockets.error().message;
      auto watch = RankWatch::start(world.rank(), std::move(*sockets), [](const LostRank&) {}, {.limits = kLimits});
      ASSERT_TRUE(watch.ok());
      ASSERT_TRUE(world.agree(Status()).ok());
      if (world.rank() == 0) {
        std::mt19937_64 random(seed + static_cast<uint64_t>(number));
        play(kind, random, *peers.relay);
        begun = system_clock().now();
      }
      ASSERT_TRUE(world.agree(Status()).ok());
      if (kind != kCutOff) {
        const auto lost = (*watch)->lost();
        EXPECT_FALSE(lost) << lost->rank << ": " << lost->how;
      } else {
        while (!(*watch)->lost() && system_clock().now() < begun + kLimits.silence + 1) {
          pause(0.005);
        }
        const auto lost = (*watch)->lost();
        ASSERT_TRUE(lost) << "rank " << world.rank() << " still waits";
        EXPECT_EQ(lost->rank, 0) << "rank " << world.rank() << ": " << lost->how;
      }
      ASSERT_TRUE(world.agree(Status()).ok());
      watch->reset();
      ASSERT_TRUE(world.agree(Status()).ok());  // keeps the relays until all ranks have sent their last messages
    });
  }
}

}  // namespace
}  // namespace xrun::runtime
