// The backward nodes whose only results are gradients of weights. A backward pass can run them after all others, so
// earlier stages need not wait for them. Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun::planner {

// Returns whether each node is such a node; index: NodeId. A node counts if all of its outputs are gradients of
// weights, or are read only by nodes that count and have the same forward node. A node that computes the gradients of
// both an input and a weight does not count.
std::vector<bool> weight_gradient_nodes(const Graph& graph);

}  // namespace xrun::planner
