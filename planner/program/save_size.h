// The size of a run's checkpoints.
#pragma once

#include <vector>

#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Whether checkpoints contain buffers of this purpose.
bool is_saved(Purpose purpose);

// Returns the approximate number of bytes that each node writes in a save, without names and digests; index: node. The
// replicas of a stage have equal weights, so only one of them writes. Class rows in files are not copied
// (planner/program/rows_on_disk.h).
std::vector<Bytes> save_by_node(const Program& program, const Machine& machine);

}  // namespace xrun::planner
