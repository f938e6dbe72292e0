// Tests: tests/runtime/cluster/hosts_test.cpp
#include "runtime/comm/ranks/network_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <string>

#include "runtime/comm/ranks/block_header.h"

namespace xrun::runtime {
namespace {

constexpr int kRounds = 8;  // number of rounds with messages of one byte, for the latency
// The duration of the last round, which determines the rate. It is far above the latency, and longer than the bursts
// that switches and queues absorb; results of shorter rounds differ by a tenth.
constexpr Seconds kLongEnough = 0.5;
constexpr int64_t kMostMessages = 1 << 15;  // messages to each peer: 2 GiB
constexpr double kMostGrowth = 16;          // growth of the number of messages from one round to the next

// Sends the messages of a round: a given number to each peer, and receives the same number from each. They are paced
// like the messages of an exchange (DividedExchange::is_ahead). A rank without peers does nothing.
class Flood final : public ChannelEnd {
 public:
  Flood(Network& network, std::vector<int> peers)
      : network_(network), peers_(std::move(peers)), unsent_(peers_.size(), 0), missing_(peers_.size(), 0) {
    channel_ = network_.open(*this);
  }
  ~Flood() override { network_.close(channel_); }

  // Sends and receives `messages` of `bytes` to and from each peer. Returns false if the run fails before that.
  bool run(int64_t messages, size_t bytes) {
    std::unique_lock lock(mutex_);
    bytes_ = bytes;
    for (size_t i = 0; i < peers_.size(); ++i) {
      unsent_[i] += messages;
      missing_[i] += messages;
    }
    lock.unlock();
    network_.wake();
    lock.lock();
    changed_.wait(lock, [&] { return failed_ || most_left() <= 0; });
    return !failed_;
  }

 private:
  // The number of messages left in the slowest stream, sent or received; 0 if there are no peers.
  int64_t most_left() const {
    return peers_.empty() ? 0 : std::max(std::ranges::max(unsent_), std::ranges::max(missing_));
  }
  void on_message(int from, Message message) override {
    network_.recycle(std::move(message));
    const std::lock_guard lock(mutex_);
    // The number becomes negative if messages of the peer arrive before this rank begins the round.
    --missing_[static_cast<size_t>(std::ranges::find(peers_, from) - peers_.begin())];
    changed_.notify_all();
  }
  void work() override {
    const std::lock_guard lock(mutex_);
    const int64_t ahead = most_left() - static_cast<int64_t>(kUnderWay);
    for (size_t i = 0; i < peers_.size(); ++i) {
      while (!failed_ && unsent_[i] > std::max<int64_t>(ahead, 0) && network_.unsent(peers_[i]) < kUnderWay) {
        network_.send(channel_, peers_[i], network_.make_message(bytes_));
        --unsent_[i];
      }
    }
    changed_.notify_all();
  }
  void on_error(const Error& /*error*/, bool /*lost*/) override {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  bool waits() const override {
    const std::lock_guard lock(mutex_);
    return !failed_ && most_left() > 0;
  }

  Network& network_;
  std::vector<int> peers_;
  int channel_ = 0;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<int64_t> unsent_;   // index: peer; number of messages still to be sent to it
  std::vector<int64_t> missing_;  // index: peer; messages still to arrive
  size_t bytes_ = 0;
  bool failed_ = false;
};

// The first rank of each host.
std::vector<int> first_ranks(const std::vector<int>& nodes) {
  std::vector<int> firsts;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    if (std::ranges::find(nodes, nodes[static_cast<size_t>(rank)]) - nodes.begin() == rank) {
      firsts.push_back(rank);
    }
  }
  return firsts;
}

// Runs a round and returns its duration on the slowest rank.
Result<Seconds> round_time(World& world, Flood& flood, int64_t messages, size_t bytes) {
  XRUN_ASSIGN(const auto begun, world.gather(std::string()));
  const auto start = std::chrono::steady_clock::now();
  flood.run(messages, bytes);  // after a failure, the next call of `world` returns the error
  const Seconds own = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  XRUN_ASSIGN(const auto times, world.gather(fmt::format("{}", own)));
  Seconds slowest = 0;
  for (const std::string& time : times) {
    slowest = std::max(slowest, std::strtod(time.c_str(), nullptr));
  }
  return slowest;
}

double with_two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))) - 1);
  return std::round(value / unit) * unit;
}

}  // namespace

Result<NetworkRate> measure_network(World& world, const std::vector<int>& nodes) {
  std::vector<int> peers = first_ranks(nodes);
  const auto hosts = static_cast<int64_t>(peers.size());
  const bool takes_part = std::erase(peers, world.rank()) > 0;
  Flood flood(world.network(), takes_part ? peers : std::vector<int>());
  NetworkRate found{.latency = kLongEnough};
  for (int i = 0; i < kRounds; ++i) {
    XRUN_ASSIGN(const Seconds time, round_time(world, flood, 1, 1));
    found.latency = std::min(found.latency, time);
  }
  const auto bytes = static_cast<size_t>(kMostBlockBytes);
  for (int64_t messages = 1; messages <= kMostMessages;) {
    XRUN_ASSIGN(const Seconds time, round_time(world, flood, messages, bytes));
    const double moved = static_cast<double>((hosts - 1) * messages) * static_cast<double>(bytes);
    found.rate = moved / std::max(time - found.latency, time / 2);
    if (time >= kLongEnough) {
      break;
    }
    // Takes a tenth more messages than would need kLongEnough at the rate of this round.
    const double growth = std::clamp(1.1 * kLongEnough / time, 1.1, kMostGrowth);
    messages = static_cast<int64_t>(std::ceil(growth * static_cast<double>(messages)));
  }
  return NetworkRate{with_two_digits(found.rate), with_two_digits(found.latency)};
}

}  // namespace xrun::runtime
