// Weights of which a step updates only some rows: the tables of `embed_bag`. The rows of numbers that the batch does
// not have get a gradient of zero, and the update leaves them, their optimizer states and their decay as they are.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// The weights of which a step leaves the rows whose gradient is zero unchanged, ascending: each operator that reads the
// weight, also under another parameter that is tied to it, has OpDef::updates_rows.
std::vector<ParamId> params_updated_by_row(const Graph& graph);

// The largest share of the rows of such a weight that a batch can update: the numbers of the batch divided by the rows,
// at most 1.
double largest_updated_share(const Graph& graph, ParamId param, int64_t batch);

}  // namespace xrun
