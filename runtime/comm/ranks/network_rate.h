// Measures the network between the hosts of a run with messages of its ranks, for the cost model of a plan.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::runtime {

struct NetworkRate {
  double rate = 0;      // bytes per second that a host sends while it receives at the same rate
  Seconds latency = 0;  // time from sending a message on one host to receiving it on another
};

// Measures in rounds, which take about a second in total: in each round the first rank of each host sends messages to
// the first ranks of all other hosts at the same time. The messages have the same length as those of exchanges, and
// their number grows from round to round until a round takes half a second. The result is equal on all ranks, and both
// values are rounded to two digits, so that noise seldom changes a plan. Collective. Errors: those of World::gather.
//   nodes  the host of each rank, counted from 0
Result<NetworkRate> measure_network(World& world, const std::vector<int>& nodes);

}  // namespace xrun::runtime
