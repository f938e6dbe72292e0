// The flat text of a graph: the math digest is computed from it, `--emit` prints it, and golden tests compare it. It
// contains everything in a graph except spans and expansions (tests/support/parse_graph.h reads it back).
//   input %0 image: f32[N, 1, 32, 32]
//   param %1 conv.weight: f32[32, 1, 3, 3] he_normal(9)
//   #0 %2: f32[N, 32, 16, 16] = conv(%0, %1) {k=3, stride=2} @conv
//   #7 back(#0) %9: f32[32, 1, 3, 3] = conv.dw(%8, %0) {k=3, stride=2} @conv
//   output feature %2
#pragma once

#include <string>

#include "graph/graph.h"

namespace xrun {

// The type, and the layout if it is not the default: "f32[N, 32, 16, 16] channels_last".
std::string text_with_layout(const TensorType& type);

// `shown`: prints only these nodes, renumbered, without bindings, outputs, metrics and heads; the nodes' paths name the
// heads.
std::string print(const Graph& graph, const IdVector<NodeId, bool>* shown = nullptr);

}  // namespace xrun
