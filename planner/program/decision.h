// Decision: the result of the search for one setting. It has all choices from which `emit` makes a Program.
#pragma once

#include <vector>

#include "planner/program/machine.h"
#include "planner/program/program.h"
#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct Decision {
  bool training = true;
  bool deterministic = false;
  bool overlap = true;
  PipelineKind pipeline = PipelineKind::kGpipe;
  int warm_up = 0;        // PipelineHint::warm_up
  int64_t batch = 0;      // global rows per step
  int64_t norm_rows = 0;  // g: rows of a row block
  int micro_batches = 1;  // M, in the global batch; of R replicas, replica r owns r · M / R .. (r + 1) · M / R - 1
  int replicas = 1;       // R: number of replicas
  int partials = 1;       // gradient partials of all replicas together (Program::partials)
  int head_devices = 0;   // Setting::head_devices
  // The last backward pass of the first stage is cut into segments, after each of which buckets of gradients are sent.
  bool early_buckets = false;

  // Only these fields of each stage are set: index, devices, forward, backward, recomputed (in order), forward_time and
  // backward_time. Emit sets the others. Nodes of the head pass (heads, their losses and metrics) are in no stage.
  std::vector<Stage> stages;
  // The complete plans of all heads with all shards; a shard may be empty.
  std::vector<HeadPlan> heads;
  Schedule schedule;
  // Seconds on the slowest device for one forward head pass (statistics), one backward head pass (including the update
  // if it is fused), and the update sweep at the end of the step.
  Seconds head_forward_time = 0;
  Seconds head_backward_time = 0;
  Seconds head_update_time = 0;
};

}  // namespace xrun::planner
