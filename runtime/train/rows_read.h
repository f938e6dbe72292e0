// The rows of each input that this process reads in a step. A rank reads only the data of its own devices: those of
// the first stage read the samples of their replica, devices with shards of a head read the labels of the whole batch.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "planner/program.h"
#include "runtime/device/bound_memory.h"
#include "runtime/train/batch_source.h"

namespace xrun::runtime {

// Index: that of Graph::inputs. Each range goes from the first to the last row that instructions read on the devices
// whose arenas are in `memory`; {0, 0} for an input that they do not read.
std::vector<RowRange> rows_read(const Graph& graph, const planner::Program& program, const BoundMemory& memory);

}  // namespace xrun::runtime
