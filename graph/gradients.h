// Determines which weights of a differentiated graph a step updates.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Whether a step updates this weight: it is trained, not frozen, and has a gradient or belongs to a sharded head that a
// loss reads. A weight that only outputs depend on has no gradient. False before differentiation.
bool has_gradient(const Graph& graph, ParamId param);

}  // namespace xrun
