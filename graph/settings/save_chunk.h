// The memory through which checkpoints are written; planner and runtime use the same numbers.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// The size of the buffer in which rows are copied from the memory of a device to a file. It holds as many rows as fit,
// or one row that is longer.
inline constexpr Bytes kSaveChunk = kMiB;
// The most memory for copies of rows that a process makes during a background save. A row is copied if a step changes
// it before it is written. If no memory is left for the copy, the row is written before it changes.
inline constexpr Bytes kSaveStaging = 128 * kMiB;

}  // namespace xrun
