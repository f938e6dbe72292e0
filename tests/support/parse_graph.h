// Reads the text that graph/print.h writes. Tests use it to check the printed text and to write graphs as text.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace xrun {

// Reads the text that `print` wrote. Spans and expansions are not in the text.
// Errors: kContent with the line number.
Result<Graph> parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace xrun
