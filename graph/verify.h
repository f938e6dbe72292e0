// The invariants of every graph between passes.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Checks that ids are in range, nodes are in topological order with forward nodes before backward nodes, types are
// those that infer returns, each value has one producer, parameter names are unique, and gradients have the shapes of
// their parameters. An Error here is a bug of xrun, which the caller reports as internal (XG0002).
Status verify(const Graph& graph);

}  // namespace xrun
