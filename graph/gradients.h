// Tells which weights of a differentiated graph a step moves.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Whether the loss moves this weight: it is updated and has a gradient, or belongs to a sharded head that a loss reads.
// A weight that only outputs depend on has no gradient.
bool has_gradient(const Graph& graph, ParamId param);

}  // namespace xrun
