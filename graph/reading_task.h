// How long the loader keeps a worker: a rule of the runtime that the planner predicts by.
#pragma once

#include "graph/base/units.h"

namespace xrun {

// Samples are read by tasks that end after so long, between two samples: so long may a device wait for a worker. Long
// beside what queuing a task costs (about a microsecond), short beside a pass of a stage.
inline constexpr Seconds kReadingTask = 1e-4;

}  // namespace xrun
