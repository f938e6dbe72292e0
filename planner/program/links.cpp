// Tests: tests/planner/cluster_test.cpp
#include "planner/program/links.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace xrun::planner {
namespace {

// Returns the fraction of its blocks that an exchange really sends. It is less than 1 for compressed gradients: their
// blocks have capacity for the warm-up, but most steps send fewer pairs. For these exchanges, Instruction::bytes is the
// number of bytes that all senders send in most steps (emit_compression.cpp).
double sent_part(const Program& program, const Instruction& member) {
  std::set<BufferId> buffers;  // buffers with the pairs of all senders
  for (const Operand& operand : member.operands) {
    if (program.buffer(operand.buffer).purpose == Purpose::kPairs) {
      buffers.insert(operand.buffer);
    }
  }
  Bytes space = 0;
  for (const BufferId id : buffers) {
    space += program.buffer(id).bytes;
  }
  return space == 0 ? 1.0 : std::clamp(static_cast<double>(member.bytes) / static_cast<double>(space), 0.0, 1.0);
}

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
  std::set<std::tuple<int, BufferId, Bytes, int, int>> known;  // group, block, rank, node
  for (const Instruction& member : program.instructions) {
    if (!communicates(member.kind)) {
      continue;
    }
    const double part = sent_part(program, member);
    for (const Operand& operand : member.operands) {
      const bool crosses =
          operand.role == Role::kSent && machine.node_of(member.device) != machine.node_of(operand.index);
      if (crosses && known
                         .emplace(member.group, operand.buffer, operand.offset, machine.rank_of(operand.index),
                                  machine.node_of(operand.index))
                         .second) {
        loads.try_emplace(member.group, machine)
            .first->second.add(member.device, operand.index,
                               static_cast<Bytes>(part * static_cast<double>(operand.bytes)));
      }
    }
  }
  return loads;
}

}  // namespace xrun::planner
