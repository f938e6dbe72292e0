// What a graph costs, by the operators' own formulae.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Per sample; a head's cost is per gathered row and class shard as a whole.
OpCost cost_of(const Graph& graph, const Node& node);
OpCost total_cost(const Graph& graph, Phase phase);

}  // namespace xrun
