// The memory through which checkpoints are written; planner and runtime use the same numbers.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// Rows on their way from the memory of a device to a file: as many as fit, or one that is longer.
inline constexpr Bytes kSaveChunk = kMiB;
// The most that a process copies of its state during a background save: rows that a step changes before they are
// written. Rows that do not fit are written before they change.
inline constexpr Bytes kSaveStaging = 128 * kMiB;

}  // namespace xrun
