// The best schedule for given times, among all that this folder can make.
#pragma once

#include <string>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct AutoSchedule {
  Schedule schedule;
  std::string name;  // FixedSchedule::name, or "greedy"
  Seconds makespan = 0;
};

// Returns the schedule with the shortest simulated time among those whose peaks are within `memory` of the request: all
// fixed schedules that exist for it, 1F1B also with more forward passes before the first backward pass, and the greedy
// schedules. Backward passes are split only if the request has the times of both parts. If two schedules take equally
// long, the one with lower peaks is better. Errors: kInfeasible XG0601 if none fits, with the rank that exceeds its
// memory most in the schedule that exceeds it least.
Result<AutoSchedule> schedule_auto(const ScheduleRequest& request);

}  // namespace xrun::planner
