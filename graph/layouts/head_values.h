// Values computed from sharded heads: the head pass computes them on all devices, after all stages.
#pragma once

#include "graph/graph.h"

namespace xrun {

// The node of the sharded head whose loss `loss` computes; invalid for any other operator.
NodeId head_of_loss(const Graph& graph, NodeId loss);

// Marks the logits of heads, the losses, metrics and lists that read them, and all values that are computed from these.
IdVector<ValueId, bool> values_of_heads(const Graph& graph);

}  // namespace xrun
