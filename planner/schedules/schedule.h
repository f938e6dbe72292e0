// Schedules: the order in which a stage runs forward and backward passes of micro-batches and the head passes
// (docs/internals/algorithms.md, "Schedules" and "Head passes in a schedule"). Each schedule has a file in schedules/,
// and check_schedule checks them all.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/settings/specs.h"

namespace xrun::planner {

enum class ActionKind : uint8_t {
  kForward,
  kBackward,
  kHead,  // a head pass over all heads: gather, statistics, gradients, scatter; on every device of the mesh
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  // kForward, kBackward: index of the micro-batch inside its replica, 0 .. M / R - 1. kHead: index of the head pass,
  // which takes the micro-batches of that index of every replica, or the whole step if there is only one pass.
  int index = 0;
  bool operator==(const Action&) const = default;
};

// The input of a schedule: times of one micro-batch on each stage.
struct ScheduleRequest {
  std::vector<Seconds> forward;   // index: stage
  std::vector<Seconds> backward;  // index: stage; recomputation included
  Seconds hop = 0;                // latency of a boundary between stages
  std::vector<Seconds> hops;      // index: stage; time of a transfer over the boundary before it; empty: `hop`
  std::vector<Seconds> first;     // index: stage; added to the first backward pass; empty: nothing
  int micro_batches = 1;          // per replica
  int head_passes = 0;            // 0: no sharded head; 1: one pass for the whole step; else one for each micro-batch
  Seconds head = 0;               // time of one head pass
  std::vector<bool> shards;       // index: stage; whether a head pass keeps its devices busy; empty: all stages
};

// The order of actions of each stage, which is equal for all replicas. Devices without a stage have only head shards
// and run the kHead actions in order.
struct Schedule {
  int micro_batches = 1;
  int head_passes = 0;
  bool training = true;                     // false: no backward actions
  std::vector<std::vector<Action>> orders;  // index: stage
};

// Each stage runs all forward passes, then the head passes, then all backward passes.
Schedule schedule_gpipe(const ScheduleRequest& request);
// Each stage first runs min(M, stages - stage - 1) forward passes, where M is the number of micro-batches of a replica.
// Then it runs one backward pass after each forward pass.
Schedule schedule_one_f_one_b(const ScheduleRequest& request);
// Each stage runs only forward passes and head passes.
Schedule schedule_inference(const ScheduleRequest& request);
Schedule make_schedule(PipelineKind kind, const ScheduleRequest& request);

// Checks the rules that every schedule must obey:
//   - Each stage runs each pass once, and the backward pass of a micro-batch after its forward pass.
//   - Backward passes and head passes run in ascending order (docs/internals/determinism.md, "Gradient partials"), and
//     head passes in the same order on all stages.
//   - On the last stage, a head pass runs after the forward passes of its micro-batches and before their backward
//   passes.
//   - Stages that run their lists in order do not deadlock.
// Errors: kContent that names the fault and its place.
Status check_schedule(const Schedule& schedule);

std::string to_text(const Action& action);      // "F0", "B3", "H1"
std::string to_text(const Schedule& schedule);  // one line per stage

}  // namespace xrun::planner
