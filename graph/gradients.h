// Gradients of a differentiated graph: which weights a step moves.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Whether the loss moves this weight: it is updated and has a gradient, or belongs to a sharded head that a loss reads.
// A weight of a part that only makes an output has none.
bool has_gradient(const Graph& graph, ParamId param);

}  // namespace xrun
