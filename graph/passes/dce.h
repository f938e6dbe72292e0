// Dead code elimination: nodes that reach neither loss, outputs, metrics, heads nor gradients go.
#pragma once

#include "graph/graph.h"

namespace xrun {

Result<Graph> eliminate_dead_code(Graph graph);

}  // namespace xrun
