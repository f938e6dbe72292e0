// The reader of graph/print.h, so that tests hold printing to its words and write graphs as text.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace xrun {

// Reads what `print` wrote; spans and expansions are not in the text.
// Errors: kContent with the line number.
Result<Graph> parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace xrun
