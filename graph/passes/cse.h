// Common subexpressions: two calls of one operator on the same values with the same arguments become one, unless they
// own parameters or draw random numbers.
#pragma once

#include "graph/graph.h"

namespace xrun {

Result<Graph> eliminate_common_subexpressions(Graph graph);

}  // namespace xrun
