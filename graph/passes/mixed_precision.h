// Mixed precision: activations of narrow operators become bf16, by explicit casts; weights stay f32 and are rounded
// when a kernel prepares them; losses are f32 (PrecisionRule).
#pragma once

#include "graph/graph.h"

namespace xrun {

// Before differentiation. Needs the operator `cast` in the registry.
Result<Graph> mix_precision(Graph graph, const OpRegistry& registry, DType narrow);

}  // namespace xrun
