// The cost of a graph, by the formulas of its operators.
#pragma once

#include "graph/graph.h"

namespace xrun {

// The cost of a node per sample. The cost of a head is per gathered row, over all its classes.
OpCost cost_of(const Graph& graph, const Node& node);
// The cost of one call of a node on `rows` rows, including the bytes of weights and of their gradients.
OpCost call_cost(const Graph& graph, const Node& node, int64_t rows);
OpCost total_cost(const Graph& graph, Phase phase);

}  // namespace xrun
