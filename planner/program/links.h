// Traffic between the nodes of a cluster. Each node has one link to the network, which sends and receives at the same
// time; blocks between devices of a node do not use it. A block that goes to several devices of one rank crosses the
// network once (docs/internals/algorithms.md, "Collective costs").
#pragma once

#include <map>
#include <span>
#include <vector>

#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Bytes that the link of a node moves.
struct LinkBytes {
  Bytes sent = 0;
  Bytes received = 0;
  Bytes busier() const { return std::max(sent, received); }
};

// Returns the bytes of the busiest link in its busier direction.
Bytes busiest_of(const std::vector<LinkBytes>& links);

// Adds up the bytes that the links of all nodes move in one exchange or in several.
class LinkLoad {
 public:
  explicit LinkLoad(const Machine& machine) : machine_(machine), links_(static_cast<size_t>(machine.nodes())) {}

  // Adds one block of `each` bytes from each of the devices `from` to all of the devices `to`.
  void add_shared(std::span<const int> from, std::span<const int> to, Bytes each);
  // Adds one block of `bytes` from device `from` to device `to`.
  void add(int from, int to, Bytes bytes);
  // Adds bytes that a node sends to other nodes, or receives from them.
  void add_sent(int node, Bytes bytes) { links_[static_cast<size_t>(node)].sent += bytes; }
  void add_received(int node, Bytes bytes) { links_[static_cast<size_t>(node)].received += bytes; }

  const std::vector<LinkBytes>& links() const { return links_; }
  Bytes busiest() const { return busiest_of(links_); }
  // Returns the time of the busiest link, plus the latency of one message; 0 if nothing crosses the network.
  Seconds time() const;

 private:
  const Machine& machine_;
  std::vector<LinkBytes> links_;  // index: node
};

// Returns the load of each exchange of a step that crosses the network; key: Instruction::group.
std::map<int, LinkLoad> link_loads(const Program& program, const Machine& machine);

// Bytes that device `from` sends to device `to` on another node. Blocks that several devices of one rank receive are in
// the message to one of them.
struct NetworkMessage {
  int from = 0;
  int to = 0;
  Bytes bytes = 0;
};

// Returns the messages of each exchange of a step that crosses the network, one for each pair of devices, in ascending
// order of the pairs; key: Instruction::group. Their bytes add up to those of `link_loads`.
std::map<int, std::vector<NetworkMessage>> network_messages(const Program& program, const Machine& machine);

}  // namespace xrun::planner
