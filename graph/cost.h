// What a graph costs, by the operators' own formulae.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

// Per sample; a head's cost is per gathered row and class shard as a whole.
OpCost cost_of(const Graph& graph, const Node& node);
OpCost total_cost(const Graph& graph, Phase phase);

// Forward values that backward nodes read, in id order: what a step keeps unless it recomputes. Inputs and parameters
// are not among them.
std::vector<ValueId> saved_for_backward(const Graph& graph);
// Their bytes per sample, with `block_rows` rows in a row block.
double saved_bytes_per_row(const Graph& graph, int64_t block_rows);

}  // namespace xrun
