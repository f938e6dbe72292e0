// The flat text of a graph, which the math digest is taken over, `--emit` prints and golden tests compare. It says all
// that a graph holds but spans and expansions (tests/support/parse_graph.h reads it back).
//   input %0 image: f32[N, 1, 32, 32]
//   param %1 conv.weight: f32[32, 1, 3, 3] he_normal(9)
//   #0 %2: f32[N, 32, 16, 16] = conv(%0, %1) {k=3, stride=2} @conv
//   #7 back(#0) %9: f32[32, 1, 3, 3] = conv.dw(%8, %0) {k=3, stride=2} @conv
//   output feature %2
#pragma once

#include <string>

#include "graph/graph.h"

namespace xrun {

// `shown`: of the nodes only these, numbered anew, without bindings, outputs, metrics, and heads, which their nodes'
// paths name.
std::string print(const Graph& graph, const IdVector<NodeId, bool>* shown = nullptr);

}  // namespace xrun
