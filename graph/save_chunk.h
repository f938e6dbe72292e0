// The memory through which checkpoints are written, which planner and runtime count alike.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// Rows on their way from the memory of a device to a file: as many as fit, or one that is longer.
inline constexpr Bytes kSaveChunk = kMiB;
// The most that a process copies of its state while a save is in the background: rows that a step changes before they
// are written. What does not fit is written before it changes.
inline constexpr Bytes kSaveStaging = 128 * kMiB;

}  // namespace xrun
