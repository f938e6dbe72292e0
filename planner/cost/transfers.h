// The parts of exchanges that cross the network between the nodes of a cluster, for the simulator.
#pragma once

#include <map>
#include <vector>

#include "planner/cost/link_shares.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Exchanges with the same links and ranks have one route. They move one after the other, because a rank sends its
// messages to another rank in the order of their exchanges (RankCommunicator::pump). Exchanges of several routes share
// the links that they have in common.
struct Transfer {
  std::vector<LinkUse> uses;
  Seconds alone = 0;  // time on the busiest link, if nothing else uses its links
  size_t route = 0;
};

// Returns the transfers of a program; key: Instruction::group. Routes are numbered from 0. Link 2n is that of node n in
// the direction in which it sends, and link 2n + 1 that in which it receives. Empty if the network has no known rate.
std::map<int, Transfer> make_transfers(const Program& program, const Machine& machine);

}  // namespace xrun::planner
