// The invariants of every graph between passes.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Ids in range, nodes in topological order and forward before backward, types as infer returns them, one producer per
// value, unique parameter names, gradients of the shape of their parameters. An Error here is a bug of ours that the
// caller reports as internal (XG0002).
Status verify(const Graph& graph);

}  // namespace xrun
