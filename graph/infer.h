// The operands of a call in the form that `OpDef::infer` expects.
#pragma once

#include "graph/graph.h"

namespace xrun {

// The types of a node's operands; the parameters that the call owns are left out.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);

}  // namespace xrun
