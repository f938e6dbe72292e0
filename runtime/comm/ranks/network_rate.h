// Measures the network between the hosts of a run with messages of its ranks, for the cost model of a plan.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::runtime {

struct NetworkRate {
  double rate = 0;      // bytes per second that the link of a host sends while it receives as many
  Seconds latency = 0;  // latency of a message between two hosts, as a rank sees it
};

// Collective: the first rank of each host sends messages, as long as those of exchanges, to the first ranks of all
// others, all at once and more in each round, until a round takes half a second: about a second in all. `nodes`: the
// host of each rank, counted from 0. The result is equal on all ranks; both figures have two digits, so that noise
// seldom changes a plan. Errors: those of World::gather.
Result<NetworkRate> measure_network(World& world, const std::vector<int>& nodes);

}  // namespace xrun::runtime
