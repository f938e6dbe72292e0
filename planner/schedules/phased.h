// The schedule in two phases, with one head pass between them.
#pragma once

#include "planner/schedules/schedule.h"

namespace xrun::planner {

// Each rank runs all forward passes, then the head pass if there is one, then all backward passes, which are split if
// the request has the times of their parts. A stage holds all micro-batches, as under GPipe.
// REQUIRES: the request has at most one head pass.
Schedule schedule_phased(const ScheduleRequest& request);

}  // namespace xrun::planner
