// The flat text of a graph, which parses back to the same graph: what golden tests compare.
//   input %0 image: f32[N, 1, 32, 32]
//   param %1 conv.weight: f32[32, 1, 3, 3] he_normal(9)
//   #0 %2: f32[N, 32, 16, 16] = conv(%0, %1) {k=3, stride=2} @conv
//   #7 back(#0) %9: f32[32, 1, 3, 3] = conv.dw(%8, %0) {k=3, stride=2} @conv
//   output feature %2
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace xrun {

std::string print(const Graph& graph);

// Reads what `print` wrote. Spans and expansions are not in the text.
// Errors: kContent with the line number.
Result<Graph> parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace xrun
