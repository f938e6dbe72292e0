// The operands of a call in the form that `OpDef::infer` expects.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Types of a node's operands, without the parameters that the call owns.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);

}  // namespace xrun
