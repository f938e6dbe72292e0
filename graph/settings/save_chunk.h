// The memory through which checkpoints are written; planner and runtime use the same numbers.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// The size of the buffer in which rows are copied from the memory of a device to a file. It holds as many rows as fit,
// or one row that is longer.
inline constexpr Bytes kSaveChunk = kMiB;
// The most memory for copies that a process makes during a background save. It copies rows that a step changes before
// they are written. Rows for which no memory is left are written before they change.
inline constexpr Bytes kSaveStaging = 128 * kMiB;

}  // namespace xrun
