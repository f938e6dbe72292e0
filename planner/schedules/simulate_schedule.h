// Simulation of a schedule, before a program exists: computes when actions start and end, from their order and
// durations (docs/internals/algorithms.md, "Simulation").
#pragma once

#include <vector>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct ActionTime {
  Action action;
  Seconds start = 0;
  Seconds end = 0;
};

struct ScheduleTimes {
  std::vector<std::vector<ActionTime>> stages;  // head passes only for stages with shards
  std::vector<ActionTime> heads;
  Seconds makespan = 0;
  // Fractions of stages x makespan. `bubble` is the time in which stages are idle; `imbalance` is the part of the idle
  // time that is caused by unequal stage times.
  double bubble = 0;
  double imbalance = 0;
};

// Simulates a schedule. Each stage runs its actions in order, and a value takes the latency of a boundary to reach the
// next stage. If transfers have times instead, a transfer also begins only when both stages have begun the transfers
// before it, in the order in which programs have them (Emitter::walk_schedule). A head pass begins when the stages that
// have shards and the last stage have reached it. Stages without shards continue during the pass, but the last stage
// waits for its end before the backward passes of its micro-batches. REQUIRES: check_schedule has accepted the
// schedule.
ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request);

}  // namespace xrun::planner
