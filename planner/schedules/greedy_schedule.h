// Schedules that are made by a simulation: whenever a rank is free, it chooses a pass by rules.
#pragma once

#include <optional>
#include <vector>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct GreedyRules {
  // How many micro-batches stage s of S may have in flight, between their forward pass and their gradient of inputs:
  // 1: S - s, as under 1F1B; 2: 2 (S - s) - 1, so that passes also cover the time of transfers; 0: as many as fit.
  int depth = 0;
  bool splits = false;  // whether backward passes are split
  // A forward pass does not begin if the values for a backward pass are known to arrive before its end.
  bool prompt_backward = false;
  // A gradient of weights does not begin if other values are known to arrive before its end, unless memory is full.
  bool fitting_weights = false;
  // Which forward pass begins if a rank has several: the one of the last stage, or else that of the first micro-batch.
  bool last_stage_first = false;
};

// All combinations that may differ for the request.
std::vector<GreedyRules> greedy_rules(const ScheduleRequest& request);

// Makes a schedule without head passes. A free rank runs forward passes until it may not run more, then a backward pass
// after each forward pass, and gradients of weights while it would wait, or when its memory is full. Returns nothing if
// the memory of a rank is too small. Source: the automatic scheduler of Qi et al., "Zero Bubble Pipeline Parallelism",
// ICLR 2024.
std::optional<Schedule> greedy_schedule(const ScheduleRequest& request, const GreedyRules& rules);

}  // namespace xrun::planner
