// Simplification: calls that give back their input (OpDef::is_identity) go.
#pragma once

#include "graph/graph.h"

namespace xrun {

Result<Graph> simplify(Graph graph);

}  // namespace xrun
