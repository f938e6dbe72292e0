// The memory through which a checkpoint is written, which planner and runtime count alike.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// Rows on their way from the memory of a device to a file: as many as fit, or one that is longer.
inline constexpr Bytes kSaveChunk = kMiB;

}  // namespace xrun
