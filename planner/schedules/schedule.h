// Schedules: the order in which a stage runs forward and backward passes of micro-batches and the head passes
// (docs/internals/algorithms.md, "Schedules" and "Head passes in a schedule"). Each schedule has a file in schedules/,
// and check_schedule checks them all.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/specs.h"

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
  int micro_batches = 1;          // per replica
  int head_passes = 0;            // 0: no sharded head; 1: one for the whole step; else one for each micro-batch
  Seconds head = 0;               // time of one head pass
};

// Orders by stage; every replica has these orders. Devices without a stage, which have only head shards, run the kHead
// actions in order.
struct Schedule {
  int micro_batches = 1;
  int head_passes = 0;
  bool training = true;  // false: no backward actions
  std::vector<std::vector<Action>> orders;
};

// All forward passes, the head, all backward passes.
Schedule schedule_gpipe(const ScheduleRequest& request);
// min(M, stages - stage - 1) forward passes ahead, then one backward after each forward.
Schedule schedule_one_f_one_b(const ScheduleRequest& request);
// Forward passes and head passes only.
Schedule schedule_inference(const ScheduleRequest& request);
Schedule make_schedule(PipelineKind kind, const ScheduleRequest& request);

// Checks the rules of every schedule: each pass once on each stage, backward after its forward, backward passes and
// head passes in ascending order (docs/internals/determinism.md, "Gradient partials"), a head pass after the forward
// passes of its micro-batches on the last stage and before their backward passes, one order of head passes everywhere,
// and no deadlock if stages run their lists in order. Errors: kContent that names the fault and its place.
Status check_schedule(const Schedule& schedule);

// Largest number of micro-batches of a stage that have begun forward and not ended backward.
int in_flight(const Schedule& schedule, int stage);

std::string to_text(const Action& action);      // "F0", "B3", "H1"
std::string to_text(const Schedule& schedule);  // one line per stage

}  // namespace xrun::planner
