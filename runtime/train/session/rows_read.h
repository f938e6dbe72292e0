// Finds the rows of each input that this process reads in a step. A rank reads only the data that its own devices need:
// devices of the first stage need the samples of their replica, and devices with shards of a head need the labels of
// the whole batch.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/program/program.h"
#include "runtime/device/bound_memory.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

// Returns a range of rows for each input; index: that of Graph::inputs. A range extends from the first to the last row
// that instructions on devices with arenas in `memory` read; it is {0, 0} for an input that they do not read.
std::vector<RowRange> rows_read(const Graph& graph, const planner::Program& program, const BoundMemory& memory);

}  // namespace xrun::runtime
