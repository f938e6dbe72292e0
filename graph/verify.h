// The rules that every graph obeys between passes.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Ids in range, nodes in topological order and forward before backward, types as infer gives them, one producer a
// value, unique parameter names, gradients of the shape of their parameters. An Error here is a fault of ours that the
// caller reports as internal (XG0002).
Status verify(const Graph& graph);

}  // namespace xrun
