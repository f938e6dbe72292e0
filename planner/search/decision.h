// Decision: all choices of the search, which emit turns into a Program.
#pragma once

#include <vector>

#include "planner/machine.h"
#include "planner/program.h"
#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct Decision {
  bool training = true;
  bool deterministic = false;
  bool overlap = true;
  PipelineKind pipeline = PipelineKind::kGpipe;
  int64_t batch = 0;      // global rows per step
  int64_t norm_rows = 0;  // g
  int micro_batches = 1;  // in the global batch; replica r owns r · M / R .. (r + 1) · M / R - 1
  int replicas = 1;
  int partials = 1;      // over all replicas
  int head_devices = 0;  // Setting::head_devices

  // Filled in: index, devices, forward, backward, recomputed (in order), forward_time, backward_time. Emit fills the
  // rest. Nodes of the head pass (heads, their losses and metrics) are in no stage.
  std::vector<Stage> stages;
  // Complete: all shards of all heads; a shard may be empty.
  std::vector<HeadPlan> heads;
  Schedule schedule;
  // Seconds of one head pass on the slowest device: forward statistics, backward (with update if fused), and of the
  // update sweep of the step.
  Seconds head_forward_time = 0;
  Seconds head_backward_time = 0;
  Seconds head_update_time = 0;
};

}  // namespace xrun::planner
