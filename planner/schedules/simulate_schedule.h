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
  std::vector<std::vector<ActionTime>> ranks;  // head passes only for ranks with shards
  std::vector<ActionTime> heads;
  Seconds makespan = 0;
  // Fractions of ranks x makespan. `bubble` is the time in which ranks are idle; `imbalance` is the part of the idle
  // time that is caused by unequal times of ranks.
  double bubble = 0;
  double imbalance = 0;
};

// Simulates a schedule. Each rank runs its actions in order, and a value takes the latency of a boundary to reach a
// stage on another rank; between stages of one rank it takes no time. If transfers have times instead, a transfer also
// begins only when both ranks have begun the transfers before it, in the order in which programs have them
// (Emitter::walk_schedule). A head pass begins when the ranks that have shards and that of the last stage have reached
// it. Ranks without shards continue during the pass, but that of the last stage waits for its end before the backward
// passes of its micro-batches. REQUIRES: check_schedule has accepted the schedule; a schedule with split passes needs
// their times.
ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request);

}  // namespace xrun::planner
