// Plans all heads of a model: the rows of a pass, the device of each shard, and the times of head passes.
#pragma once

#include <vector>

#include "graph/module.h"
#include "planner/program/head_plan.h"
#include "planner/search/chain.h"

namespace xrun::planner {

// Returns the plans of all heads of `module`, with their shards. `rows` is the number h of rows of one pass; if it is
// less than the batch, class rows are updated in a separate sweep. `head_devices` is the argument `wanted` of
// shard_devices. Errors: kContent XG0604 for a shard hint of an unknown head; those of plan_head.
Result<std::vector<HeadPlan>> plan_heads(const Module& module, const Chain& chain, const Machine& machine, int64_t rows,
                                         int head_devices = 0);

// Seconds of the passes of all heads on the slowest device, without exchanges. `forward` (statistics) and `backward`
// (gradients) are for one pass. `update` is for the sweep at the end of the step, and `selection` for drawing the
// active classes of the step.
struct HeadTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  Seconds update = 0;
  Seconds selection = 0;
  Seconds pass() const { return forward + backward; }
};
struct TrainingHeads {
  int64_t batch = 0;
  bool trains = true;
  int states = 0;  // optimizer states of each weight
};
TrainingHeads training_heads(const Module& module);
HeadTimes head_times(const std::vector<HeadPlan>& heads, const CostModel& cost, const TrainingHeads& training);

// The least times of the passes and updates of one head on each device, whichever of its logits a plan keeps.
struct LeastHeadTimes {
  std::vector<Seconds> pass;    // index: device; statistics and gradients, without exchanges
  std::vector<Seconds> update;  // index: device; the sweep at the end of the step
};
LeastHeadTimes least_head_times(const HeadPlan& head, const CostModel& cost, const TrainingHeads& training);

}  // namespace xrun::planner
