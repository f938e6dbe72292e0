#include "planner/program/replica_sums.h"

#include <algorithm>

namespace xrun::planner {
namespace {

constexpr auto kElement = static_cast<Bytes>(sizeof(float));

// Returns part `i` of a slice that is divided into `n` parts, whose lengths differ by at most one element.
Slice part_of(Slice slice, int i, int n) {
  const int64_t count = slice.bytes / kElement;
  const int64_t begin = count * i / n;
  return {slice.offset + begin * kElement, (count * (i + 1) / n - begin) * kElement};
}

// Whether each group of `count` consecutive replicas of a stage is on one node. `devices` has each replica's device.
bool fits_nodes(std::span<const int> device_nodes, const std::vector<int>& devices, int count) {
  for (size_t r = 0; r < devices.size() && !device_nodes.empty(); ++r) {
    const size_t first = r - r % static_cast<size_t>(count);
    if (device_nodes[static_cast<size_t>(devices[r])] != device_nodes[static_cast<size_t>(devices[first])]) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<int> ReplicaSums::members(int round, int replica) const {
  const bool inside = owner_ >= 0 || (rounds() == 2 && round == 0);  // whether all members are in one group
  const bool across = rounds() == 2 && round == 1;
  std::vector<int> members;
  for (int other = 0; other < replicas_; ++other) {
    const bool joins = inside   ? other / node_replicas_ == replica / node_replicas_
                       : across ? other % node_replicas_ == replica % node_replicas_
                                : true;
    if (joins) {
      members.push_back(other);
    }
  }
  return members;
}

Slice ReplicaSums::shared(int64_t count, int round, int replica) const {
  const Slice whole{0, count * kElement};
  return round == 0 ? whole : part_of(whole, replica % node_replicas_, node_replicas_);
}

Slice ReplicaSums::slice(int64_t count, int round, int replica) const {
  const Slice all = shared(count, round, replica);
  if (owner_ >= 0) {
    return replica % node_replicas_ == owner_ ? all : Slice();
  }
  if (rounds() == 1) {
    return part_of(all, replica, replicas_);
  }
  return round == 0 ? part_of(all, replica % node_replicas_, node_replicas_)
                    : part_of(all, replica / node_replicas_, replicas_ / node_replicas_);
}

Bytes ReplicaSums::terms(int64_t count, int replica) const {
  Bytes most = 0;
  for (int round = 0; round < rounds(); ++round) {
    const auto others = static_cast<Bytes>(members(round, replica).size()) - 1;
    most = std::max(most, slice(count, round, replica).bytes * others);
  }
  return most;
}

int longest_runs(std::span<const int> device_nodes, std::span<const std::vector<int>> stages) {
  const int replicas = stages.empty() ? 1 : static_cast<int>(stages[0].size());
  for (int count = replicas; count > 1; --count) {
    const auto fits = [&](const std::vector<int>& devices) { return fits_nodes(device_nodes, devices, count); };
    if (replicas % count == 0 && std::ranges::all_of(stages, fits)) {
      return count;
    }
  }
  return 1;
}

int replicas_of_node(std::span<const int> device_nodes, std::span<const std::vector<int>> stages) {
  const int count = longest_runs(device_nodes, stages);
  const bool all = !stages.empty() && count == static_cast<int>(stages[0].size());
  return all ? 1 : count;  // if all replicas are on one node, one round is enough
}

}  // namespace xrun::planner
