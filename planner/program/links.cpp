// Tests: tests/planner/program/links_test.cpp, tests/planner/cluster_test.cpp
#include "planner/program/links.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_map>

namespace xrun::planner {
namespace {

// Returns the fraction of its blocks that an exchange really sends. It is less than 1 for compressed gradients: their
// blocks have capacity for the warm-up, but most steps send fewer pairs. For these exchanges, Instruction::bytes is the
// number of bytes that all senders send in most steps (emit_compression.cpp).
double sent_part(const Program& program, const Instruction& member) {
  std::set<BufferId> buffers;  // buffers with the pairs of all senders
  BufferId last;
  for (const Operand& operand : member.operands) {
    if (operand.buffer != last && program.buffer(operand.buffer).purpose == Purpose::kPairs) {
      buffers.insert(operand.buffer);
    }
    last = operand.buffer;
  }
  Bytes space = 0;
  for (const BufferId id : buffers) {
    space += program.buffer(id).bytes;
  }
  return space == 0 ? 1.0 : std::clamp(static_cast<double>(member.bytes) / static_cast<double>(space), 0.0, 1.0);
}

// The blocks that exchanges send, and the places, each a rank on a node, to which they were sent.
class SentBlocks {
 public:
  explicit SentBlocks(const Machine& machine) {
    std::map<std::pair<int, int>, size_t> places;  // key: (rank, node)
    for (int device = 0; device < std::ssize(machine.device_nodes); ++device) {
      const std::pair place(machine.rank_of(device), machine.node_of(device));
      place_of_.push_back(places.emplace(place, places.size()).first->second);
    }
    places_ = places.size();
  }

  // Returns the indices of the blocks of a run that are counted. If the run sends one block to several devices, only
  // the first device of each place is counted.
  const std::vector<int>& separate(const Operand& run) {
    auto [found, fresh] = separate_.try_emplace({run.index, run.count, run.stride, run.step == 0});
    std::vector<bool> places(fresh ? places_ : 0, false);
    for (int k = 0; k < run.count && fresh; ++k) {
      std::vector<bool>::reference has = places[place_of_[static_cast<size_t>(run.device(k))]];
      if (!has || run.step != 0) {
        found->second.push_back(k);
      }
      has = true;
    }
    return found->second;
  }

  // Records that an exchange sends a block to a device. Returns whether the block was not sent to its place before. If
  // the block is that of the last call, it is found without a search.
  bool add(int group, BufferId buffer, Bytes offset, int device) {
    const Key key{group, buffer.index, offset};
    if (numbers_.empty() || last_ != key) {
      at_ = numbers_.try_emplace(key, numbers_.size()).first->second;
      last_ = key;
      sent_.resize(numbers_.size() * places_);
    }
    std::vector<bool>::reference sent = sent_[at_ * places_ + place_of_[static_cast<size_t>(device)]];
    const bool first = !sent;
    sent = true;
    return first;
  }

 private:
  using Key = std::tuple<int, int32_t, Bytes>;  // group, buffer, offset in the buffer
  struct Hash {
    size_t operator()(const Key& key) const {
      const auto& [group, buffer, offset] = key;
      uint64_t hash = static_cast<uint64_t>(group) * 0x9e3779b97f4a7c15U;
      hash = (hash ^ static_cast<uint64_t>(buffer)) * 0x9e3779b97f4a7c15U;
      hash = (hash ^ hash >> 32U ^ static_cast<uint64_t>(offset)) * 0x9e3779b97f4a7c15U;
      return hash ^ hash >> 32U;
    }
  };

  std::vector<size_t> place_of_;  // index: device
  size_t places_ = 0;
  std::map<std::tuple<int, int, int, bool>, std::vector<int>> separate_;
  std::unordered_map<Key, size_t, Hash> numbers_;  // the number of each block
  std::vector<bool> sent_;                         // index: number of a block · places_ + place
  Key last_;                                       // the block of the last call
  size_t at_ = 0;                                  // its number
};

}  // namespace

void LinkLoad::add(int from, int to, Bytes bytes) {
  const int sender = machine_.node_of(from);
  const int receiver = machine_.node_of(to);
  if (sender != receiver) {
    links_[static_cast<size_t>(sender)].sent += bytes;
    links_[static_cast<size_t>(receiver)].received += bytes;
  }
}

void LinkLoad::add_shared(std::span<const int> from, std::span<const int> to, Bytes each) {
  // For each node: the number of blocks that it sends, and the number of copies of each block that it receives.
  std::vector<int64_t> senders(links_.size(), 0);
  std::vector<int64_t> receivers(links_.size(), 0);
  for (const int device : from) {
    ++senders[static_cast<size_t>(machine_.node_of(device))];
  }
  std::set<std::pair<int, int>> places;  // (rank, node) of the receivers
  int64_t receiving = 0;
  for (const int device : to) {
    if (places.emplace(machine_.rank_of(device), machine_.node_of(device)).second) {
      ++receivers[static_cast<size_t>(machine_.node_of(device))];
      ++receiving;
    }
  }
  const auto sending = static_cast<int64_t>(from.size());
  for (size_t n = 0; n < links_.size(); ++n) {
    links_[n].sent += senders[n] * (receiving - receivers[n]) * each;
    links_[n].received += (sending - senders[n]) * receivers[n] * each;
  }
}

Bytes busiest_of(const std::vector<LinkBytes>& links) {
  Bytes most = 0;
  for (const LinkBytes& link : links) {
    most = std::max(most, link.busier());
  }
  return most;
}

Seconds LinkLoad::time() const {
  const Bytes bytes = busiest();
  const NetworkSpec& network = machine_.network;
  return bytes == 0 || !network.known() ? 0.0 : network.latency + static_cast<double>(bytes) / network.rate;
}

std::map<int, LinkLoad> link_loads(const Program& program, const Machine& machine) {
  std::map<int, LinkLoad> loads;
  if (machine.nodes() == 1) {
    return loads;
  }
  SentBlocks known(machine);
  for (const Instruction& member : program.instructions) {
    if (!communicates(member.kind)) {
      continue;
    }
    const double part = sent_part(program, member);
    LinkLoad* load = nullptr;
    for (const Operand& operand : member.operands) {
      if (operand.role != Role::kSent) {
        continue;
      }
      const auto bytes = static_cast<Bytes>(part * static_cast<double>(operand.bytes));
      for (const int k : known.separate(operand)) {
        const int to = operand.device(k);
        const bool crosses = machine.node_of(member.device) != machine.node_of(to);
        if (crosses && known.add(member.group, operand.buffer, operand.place(k), to)) {
          load = load == nullptr ? &loads.try_emplace(member.group, machine).first->second : load;
          load->add(member.device, to, bytes);
        }
      }
    }
  }
  return loads;
}

}  // namespace xrun::planner
