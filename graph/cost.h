// The cost of a graph, by the formulas of its operators.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Per sample; a head's cost is per gathered row and class shard as a whole.
OpCost cost_of(const Graph& graph, const Node& node);
OpCost total_cost(const Graph& graph, Phase phase);

}  // namespace xrun
