#include "planner/program/links.h"

#include <gtest/gtest.h>
#include <set>
#include <tuple>

#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

// Returns the bytes that each node sends and receives in each exchange, block by block: a block crosses the network
// once for each rank on another node. Blocks are sent whole, so gradients must not be compressed.
std::map<int, std::vector<LinkBytes>> loads_by_block(const Program& program, const Machine& machine) {
  std::map<int, std::vector<LinkBytes>> loads;
  std::set<std::tuple<int, BufferId, Bytes, int, int>> known;
  for (const Instruction& member : program.instructions) {
    const int from = machine.node_of(member.device);
    for (const Operand& operand : member.operands) {
      for (int k = 0; k < operand.count && communicates(member.kind) && operand.role == Role::kSent; ++k) {
        const int to = operand.device(k);
        const std::tuple place(member.group, operand.buffer, operand.place(k), machine.rank_of(to),
                               machine.node_of(to));
        if (from != machine.node_of(to) && known.insert(place).second) {
          auto& links = loads[member.group];
          links.resize(static_cast<size_t>(machine.nodes()));
          links[static_cast<size_t>(from)].sent += operand.bytes;
          links[static_cast<size_t>(machine.node_of(to))].received += operand.bytes;
        }
      }
    }
  }
  return loads;
}

TEST(Links, LoadsAndMessagesAreTheSumsOverAllBlocks) {
  int exchanges = 0;
  for (const int nodes : {2, 3, 4}) {
    for (const int replicas : {2, 4}) {
      for (const int ranks : {nodes, 2 * nodes}) {
        const int devices = std::max(2 * replicas, 2 * nodes);
        const Case made = make_case(
            {.micro_batches = 8, .replicas = replicas, .nodes = nodes, .devices = devices, .shards = devices});
        Machine machine = make_test_machine(devices);
        machine.ranks = ranks;
        for (int device = 0; device < devices; ++device) {
          machine.device_nodes.push_back(device * nodes / devices);
        }
        const std::map<int, LinkLoad> loads = link_loads(made.program, machine);
        const auto wanted = loads_by_block(made.program, machine);
        ASSERT_EQ(loads.size(), wanted.size());
        const auto messages = network_messages(made.program, machine);
        ASSERT_EQ(messages.size(), wanted.size());
        for (const auto& [group, links] : wanted) {
          LinkLoad sum(machine);
          for (const NetworkMessage& message : messages.at(group)) {
            sum.add(message.from, message.to, message.bytes);
          }
          for (size_t n = 0; n < links.size(); ++n) {
            ASSERT_EQ(loads.at(group).links()[n].sent, links[n].sent) << "group " << group << ", node " << n;
            ASSERT_EQ(loads.at(group).links()[n].received, links[n].received) << "group " << group << ", node " << n;
            ASSERT_EQ(sum.links()[n].sent, links[n].sent) << "messages of group " << group << ", node " << n;
            ASSERT_EQ(sum.links()[n].received, links[n].received) << "messages of group " << group << ", node " << n;
          }
          ++exchanges;
        }
      }
    }
  }
  EXPECT_GT(exchanges, 30);
}

}  // namespace
}  // namespace xrun::planner::testing
