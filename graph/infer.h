// Infers the types of all values from those of inputs and parameters, also after a pass has changed some of them.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Types of a node's data inputs, without the parameters that the call owns.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);

// Errors: those of the operators' infer functions, with the node's span.
Result<Graph> infer_types(Graph graph);

}  // namespace xrun
