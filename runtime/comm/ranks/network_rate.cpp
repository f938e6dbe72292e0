#include "runtime/comm/ranks/network_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <string>

namespace xrun::runtime {
namespace {

constexpr int kRounds = 8;            // of messages without content
constexpr Seconds kLongEnough = 0.1;  // far above the latency, and above what switches and queues let pass at once
constexpr Bytes kFirst = 64 * kKiB;
constexpr Bytes kLast = 4 * kMiB;
constexpr Bytes kMostInAll = 64 * kMiB;  // that a rank holds of the others

// The time of a round of texts with `bytes` bytes, on the slowest rank.
Result<Seconds> round_time(World& world, Bytes bytes) {
  XRUN_ASSIGN(const auto begun, world.gather(std::string()));
  const auto start = std::chrono::steady_clock::now();
  XRUN_ASSIGN(const auto texts, world.gather(std::string(static_cast<size_t>(bytes), 'x')));
  const Seconds own = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  XRUN_ASSIGN(const auto times, world.gather(fmt::format("{}", own)));
  Seconds slowest = 0;
  for (const std::string& time : times) {
    slowest = std::max(slowest, std::strtod(time.c_str(), nullptr));
  }
  return slowest;
}

double with_two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

}  // namespace

Bytes busiest_link(const std::vector<int>& nodes, Bytes bytes) {
  std::map<int, int64_t> ranks;
  for (const int node : nodes) {
    ++ranks[node];
  }
  Bytes most = 0;
  for (const auto& [node, own] : ranks) {
    most = std::max(most, own * (static_cast<int64_t>(nodes.size()) - own) * bytes);
  }
  return most;
}

Result<NetworkRate> measure_network(World& world, const std::vector<int>& nodes) {
  NetworkRate found{.latency = kLongEnough};
  for (int i = 0; i < kRounds; ++i) {
    XRUN_ASSIGN(const Seconds time, round_time(world, 0));
    found.latency = std::min(found.latency, time);
  }
  const Bytes last = std::max(kFirst, std::min(kLast, kMostInAll / world.count()));
  for (Bytes bytes = kFirst; bytes <= last; bytes *= 4) {
    XRUN_ASSIGN(const Seconds time, round_time(world, bytes));
    const Seconds moving = std::max(time - found.latency, time / 2);
    found.rate = static_cast<double>(busiest_link(nodes, bytes)) / moving;
    if (time >= kLongEnough) {
      break;
    }
  }
  return NetworkRate{with_two_digits(found.rate), with_two_digits(found.latency)};
}

}  // namespace xrun::runtime
