// The time for which the loader occupies a worker. The runtime keeps to it, and the planner predicts with it.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// A task reads samples until this time has passed, so a device waits for a worker at most this long and for one sample.
// It is long compared with queuing a task (about a microsecond), and short compared with a pass of a stage.
inline constexpr Seconds kReadingTask = 1e-4;

}  // namespace xrun
