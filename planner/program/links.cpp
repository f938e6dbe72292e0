// Tests: tests/planner/program/links_test.cpp, tests/planner/cluster_test.cpp
#include "planner/program/links.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

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

// Counts the blocks that a member of an exchange sends over the network. A block that goes to several devices of one
// place, a rank on a node, is counted once. Runs of one member that send the same blocks have equal buffers, offsets,
// steps and counts.
class SentBlocks {
 public:
  explicit SentBlocks(const Machine& machine) : machine_(machine) {
    std::map<std::pair<int, int>, size_t> places;  // key: (rank, node)
    for (int device = 0; device < std::ssize(machine.device_nodes); ++device) {
      const std::pair place(machine.rank_of(device), machine.node_of(device));
      place_of_.push_back(places.emplace(place, places.size()).first->second);
    }
    last_block_.resize(places.size(), 0);
  }

  // Calls visit(bytes, device) for each block that is counted, with its size and the device that receives it.
  template <typename Visit>
  void visit(const Instruction& member, const Visit& visit) {
    runs_.clear();
    for (const Operand& operand : member.operands) {
      if (operand.role == Role::kSent) {
        runs_.push_back(&operand);
      }
    }
    std::ranges::stable_sort(runs_, {}, [](const Operand* run) { return blocks_of(*run); });
    for (size_t begin = 0, end = 0; begin < runs_.size(); begin = end) {
      while (end < runs_.size() && blocks_of(*runs_[end]) == blocks_of(*runs_[begin])) {
        ++end;
      }
      visit_blocks(member.device, std::span(runs_).subspan(begin, end - begin), visit);
    }
  }

 private:
  // The blocks of a run. All blocks of a run with step 0 are one block.
  static std::tuple<int32_t, Bytes, Bytes, int> blocks_of(const Operand& run) {
    return {run.buffer.index, run.offset, run.count == 1 ? 0 : run.step, run.step == 0 ? 1 : run.count};
  }

  // Visits the blocks of runs that send the same blocks.
  template <typename Visit>
  void visit_blocks(int from, std::span<const Operand* const> runs, const Visit& visit) {
    const int node = machine_.node_of(from);
    const auto send = [&](const Operand& run, int k) {
      const int to = run.device(k);
      uint64_t& last = last_block_[place_of_[static_cast<size_t>(to)]];
      if (machine_.node_of(to) != node && last != block_) {
        last = block_;
        visit(run.bytes, to);
      }
    };
    const bool one_block = std::get<3>(blocks_of(*runs[0])) == 1;
    for (int k = 0; k < (one_block ? 1 : runs[0]->count); ++k) {
      ++block_;
      for (const Operand* const run : runs) {
        for (int i = k; i < (one_block ? run->count : k + 1); ++i) {
          send(*run, i);
        }
      }
    }
  }

  const Machine& machine_;
  std::vector<size_t> place_of_;      // index: device
  std::vector<uint64_t> last_block_;  // the number of the last block that was sent to a place; index: place
  uint64_t block_ = 0;                // the number of the block that is visited; the first block is 1
  std::vector<const Operand*> runs_;
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
  SentBlocks sent(machine);
  for (const Instruction& member : program.instructions) {
    if (!communicates(member.kind)) {
      continue;
    }
    const double part = sent_part(program, member);
    LinkLoad* load = nullptr;
    sent.visit(member, [&](Bytes block, int to) {
      load = load == nullptr ? &loads.try_emplace(member.group, machine).first->second : load;
      load->add(member.device, to, static_cast<Bytes>(part * static_cast<double>(block)));
    });
  }
  return loads;
}

std::map<int, std::vector<NetworkMessage>> network_messages(const Program& program, const Machine& machine) {
  std::map<int, std::map<std::pair<int, int>, Bytes>> bytes;  // keys: group; sending and receiving device
  if (machine.nodes() > 1) {
    SentBlocks sent(machine);
    for (const Instruction& member : program.instructions) {
      if (communicates(member.kind)) {
        const double part = sent_part(program, member);
        sent.visit(member, [&](Bytes block, int to) {
          bytes[member.group][{member.device, to}] += static_cast<Bytes>(part * static_cast<double>(block));
        });
      }
    }
  }
  std::map<int, std::vector<NetworkMessage>> messages;
  for (const auto& [group, pairs] : bytes) {
    for (const auto& [pair, size] : pairs) {
      messages[group].push_back({.from = pair.first, .to = pair.second, .bytes = size});
    }
  }
  return messages;
}

}  // namespace xrun::planner
