// The plans of all heads of a model: rows of a pass, the device of each shard, and the times of head passes.
#pragma once

#include <vector>

#include "graph/module.h"
#include "planner/head_plan.h"
#include "planner/search/chain.h"

namespace xrun::planner {

// Every head of `module` with its shards. `rows`: gathered rows of one pass, h (if less than the batch, dW and update
// are a separate sweep). `head_devices`: see shard_devices. Errors: kContent XG0604 for a shard hint of an unknown
// head; those of plan_head.
Result<std::vector<HeadPlan>> plan_heads(const Module& module, const Chain& chain, const Machine& machine, int64_t rows,
                                         int head_devices = 0);

// Seconds of the passes of all heads on the slowest device. `pass` is statistics and gradients with the collectives
// between them; `update` is the sweep at the end of the step, and `selection` draws the active classes of the step.
struct HeadTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  Seconds update = 0;
  Seconds selection = 0;
  Seconds collectives = 0;
  Seconds pass() const { return forward + backward + collectives; }
};
struct TrainingHeads {
  int64_t batch = 0;
  bool trains = true;
  int states = 0;  // optimizer states of each weight
};
TrainingHeads training_heads(const Module& module);
// `makers`: the devices that make the features.
HeadTimes head_times(const std::vector<HeadPlan>& heads, const CostModel& cost, const TrainingHeads& training,
                     const std::vector<int>& makers);

}  // namespace xrun::planner
