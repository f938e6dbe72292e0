// Measures the network between the hosts of a run by the messages of its ranks, so that a plan can count with it.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::runtime {

struct NetworkRate {
  double rate = 0;      // bytes a second that the link of a host sends, and at the same time receives
  Seconds latency = 0;  // of a message between two hosts, as a rank sees it
};

// The bytes that the busiest link moves when each rank sends `bytes` to every other one. `nodes`: the host of each
// rank, counted from 0.
Bytes busiest_link(const std::vector<int>& nodes, Bytes bytes);

// Collective, for at most half a second: all ranks send to all others at once, ever more until that takes long enough
// to be measured. The same on all ranks; both figures have two digits, so that noise seldom changes a plan.
// Errors: those of World::gather.
Result<NetworkRate> measure_network(World& world, const std::vector<int>& nodes);

}  // namespace xrun::runtime
