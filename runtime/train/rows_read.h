// The rows of each input that this process reads in a step. A rank reads the data of its own devices alone: those of
// the first stage read the samples of their replica, devices with shards of a head the labels of the whole batch.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/program.h"
#include "runtime/device/bound_memory.h"
#include "runtime/train/batch_source.h"

namespace xrun::runtime {

// By index in Graph::inputs: from the first to the last row that instructions read on the devices whose arenas `memory`
// has; {0, 0} of an input that they do not read.
std::vector<RowRange> rows_read(const Graph& graph, const planner::Program& program, const BoundMemory& memory);

}  // namespace xrun::runtime
