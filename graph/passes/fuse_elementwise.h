// Fusion of a pointwise operator into its only producer (OpDef::absorbs): bn -> relu, add -> relu. A fused group is one
// node, so a partition never cuts it.
#pragma once

#include "graph/graph.h"

namespace xrun {

// Before differentiation.
Result<Graph> fuse_elementwise(Graph graph);

}  // namespace xrun
