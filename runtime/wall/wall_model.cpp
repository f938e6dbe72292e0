#include "runtime/wall/wall_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/program/links.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::Role;

// The members of one exchange; index: device.
using Members = std::map<int, int>;

// Returns the members of each exchange as indices in WallModel::exchanges; key: group.
std::map<int, Members> members_of(const planner::Program& program) {
  std::map<int, Members> groups;
  int count = 0;
  for (const Instruction& one : program.instructions) {
    if (communicates(one.kind)) {
      groups[one.group].emplace(one.device, count++);
    }
  }
  return groups;
}

void add_members(const planner::Program& program, const std::map<int, Members>& groups, double slow, WallModel& model) {
  std::map<int, Seconds> times;  // time of the slowest member; key: group
  for (const Instruction& one : program.instructions) {
    if (communicates(one.kind)) {
      times[one.group] = std::max(times[one.group], one.predicted);
    }
  }
  for (const Instruction& one : program.instructions) {
    if (!communicates(one.kind)) {
      continue;
    }
    WallExchange made{.senders = {}, .least = slow * times.at(one.group)};
    const Members& members = groups.at(one.group);
    for (const planner::Operand& operand : one.operands) {
      for (int k = 0; operand.role == Role::kReceived && k < operand.count; ++k) {
        made.senders.push_back(members.at(operand.device(k)));
      }
    }
    std::ranges::sort(made.senders);
    made.senders.erase(std::ranges::unique(made.senders).begin(), made.senders.end());
    model.exchanges.push_back(std::move(made));
  }
}

}  // namespace

void add_exchanges(const planner::Program& program, const planner::Machine& machine, double slow, WallModel& model) {
  const std::map<int, Members> groups = members_of(program);
  add_members(program, groups, slow, model);
  if (!machine.network.known()) {
    return;
  }
  const size_t first = model.rates.size();
  model.rates.resize(first + 2 * static_cast<size_t>(machine.nodes()), machine.network.rate / slow);
  model.latency = slow * machine.network.latency;
  std::map<std::pair<int, int>, size_t> routes;  // key: sending and receiving rank
  for (const auto& [group, messages] : planner::network_messages(program, machine)) {
    const Members& members = groups.at(group);
    for (const planner::NetworkMessage& one : messages) {
      const std::pair ranks(machine.rank_of(one.from), machine.rank_of(one.to));
      WallMessage made{.from = members.at(one.from),
                       .to = {members.at(one.to)},
                       .bytes = static_cast<double>(one.bytes),
                       .route = routes.try_emplace(ranks, routes.size()).first->second,
                       .buckets = {first + 2 * static_cast<size_t>(machine.node_of(one.from)),
                                   first + 2 * static_cast<size_t>(machine.node_of(one.to)) + 1}};
      // Other members on the rank of the receiver read blocks of the same message.
      for (const auto& [device, member] : members) {
        const std::vector<int>& senders = model.exchanges[static_cast<size_t>(member)].senders;
        if (device != one.to && machine.rank_of(device) == ranks.second &&
            std::ranges::binary_search(senders, made.from)) {
          made.to.push_back(member);
        }
      }
      model.messages.push_back(std::move(made));
    }
  }
  model.routes = routes.size();
}

}  // namespace xrun::runtime
