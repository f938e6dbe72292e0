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

constexpr int kRounds = 8;            // of messages without content
constexpr Seconds kLongEnough = 0.1;  // far above the latency, and above what switches and queues let pass at once
constexpr int64_t kMostMessages = 512;
constexpr size_t kUnderWay = 16;

// The messages of a round: so many to each of the peers, and as many from each. A rank without peers takes no part.
class Flood final : public ChannelEnd {
 public:
  Flood(Network& network, std::vector<int> peers)
      : network_(network), peers_(std::move(peers)), unsent_(static_cast<size_t>(network.count()), 0) {
    channel_ = network_.open(*this);
  }
  ~Flood() override { network_.close(channel_); }

  // Sends and receives `messages` of `bytes` to and from each peer. Gives false where the run ends before that.
  bool run(int64_t messages, size_t bytes) {
    std::unique_lock lock(mutex_);
    expected_ += messages * static_cast<int64_t>(peers_.size());
    bytes_ = bytes;
    for (const int peer : peers_) {
      unsent_[static_cast<size_t>(peer)] += messages;
    }
    lock.unlock();
    network_.wake();
    lock.lock();
    changed_.wait(lock, [&] { return failed_ || (received_ >= expected_ && sent_all()); });
    return !failed_;
  }

 private:
  bool sent_all() const {
    return std::ranges::all_of(unsent_, [](int64_t left) { return left == 0; });
  }
  void on_message(int /*from*/, Message message) override {
    network_.recycle(std::move(message));
    const std::lock_guard lock(mutex_);
    ++received_;
    changed_.notify_all();
  }
  void work() override {
    const std::lock_guard lock(mutex_);
    for (const int peer : peers_) {
      int64_t& left = unsent_[static_cast<size_t>(peer)];
      for (; !failed_ && left > 0 && network_.unsent(peer) < kUnderWay; --left) {
        network_.send(channel_, peer, network_.make_message(bytes_));
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
    return !failed_ && (received_ < expected_ || !sent_all());
  }

  Network& network_;
  std::vector<int> peers_;
  int channel_ = 0;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<int64_t> unsent_;  // by rank
  size_t bytes_ = 0;
  int64_t received_ = 0;
  int64_t expected_ = 0;
  bool failed_ = false;
};

// The first rank of each host, where that is more than this one.
std::vector<int> first_ranks(const std::vector<int>& nodes) {
  std::vector<int> firsts;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    if (std::ranges::find(nodes, nodes[static_cast<size_t>(rank)]) - nodes.begin() == rank) {
      firsts.push_back(rank);
    }
  }
  return firsts;
}

// The time of a round on the slowest rank.
Result<Seconds> round_time(World& world, Flood& flood, int64_t messages, size_t bytes) {
  XRUN_ASSIGN(const auto begun, world.gather(std::string()));
  const auto start = std::chrono::steady_clock::now();
  flood.run(messages, bytes);  // an error comes from the next call of the world
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
  for (int64_t messages = 1; messages <= kMostMessages; messages *= 4) {
    XRUN_ASSIGN(const Seconds time, round_time(world, flood, messages, bytes));
    const double moved = static_cast<double>((hosts - 1) * messages) * static_cast<double>(bytes);
    found.rate = moved / std::max(time - found.latency, time / 2);
    if (time >= kLongEnough) {
      break;
    }
  }
  return NetworkRate{with_two_digits(found.rate), with_two_digits(found.latency)};
}

}  // namespace xrun::runtime
