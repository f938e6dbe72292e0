// Schedules: the order in which the devices of a pipeline run the passes of micro-batches and the head passes
// (docs/internals/algorithms.md, "Schedules" and "Head passes in a schedule"). A rank is the position of a device in
// the pipeline; it has one stage, or several, which are then called its chunks. Each schedule has a file in schedules/,
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
  kBackward,        // a whole backward pass: the gradients of the stage's inputs and of its weights
  kInputGradient,   // a split backward pass: the gradients that the stage before needs
  kWeightGradient,  // the rest of the split pass, at any time after kInputGradient: the gradients of the weights
  kHead,            // a head pass over all heads: gather, statistics, gradients, scatter; on every device of the mesh
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  // Passes of a stage: index of the micro-batch inside its replica, 0 .. M / R - 1. kHead: index of the head pass,
  // which takes the micro-batches of that index of every replica, or the whole step if there is only one pass.
  int index = 0;
  int stage = 0;  // kHead: 0
  bool operator==(const Action&) const = default;
};

// The input of a schedule: times and memory of one micro-batch on each stage.
struct ScheduleRequest {
  std::vector<Seconds> forward;          // index: stage
  std::vector<Seconds> backward;         // index: stage; a whole backward pass, recomputation included
  std::vector<Seconds> input_gradient;   // index: stage; recomputation included; empty: passes cannot be split
  std::vector<Seconds> weight_gradient;  // index: stage; empty as well
  std::vector<int> rank_of_stage;        // index: stage; empty: stage s is on rank s
  std::vector<int> extra_warm_up;        // index: rank; forward passes that 1F1B runs earlier than usual; empty: none
  Seconds hop = 0;                       // latency of a boundary between stages on different ranks
  std::vector<Seconds> hops;   // index: stage; time of a transfer over the boundary before it; empty: `hop`. A boundary
                               // between two stages of one rank takes no time
  std::vector<Seconds> first;  // index: stage; added to the first pass with gradients of weights; empty: nothing
  int micro_batches = 1;       // per replica
  int head_passes = 0;         // 0: no sharded head; 1: one pass for the whole step; else one for each micro-batch
  Seconds head = 0;            // time of one head pass
  std::vector<bool> shards;    // index: rank; whether a head pass keeps its devices busy; empty: all ranks
  std::vector<double> saved;   // index: stage; bytes from the forward pass to the end of the backward pass; empty: 1
  std::vector<double> retained;  // index: stage; the part of `saved` that a weight gradient needs; empty: all of it
  std::vector<double> memory;    // index: rank; most bytes that its stages may save at once; empty: no limit
};

// The order of actions of each rank, which is equal for all replicas. Devices without a stage have only head shards
// and run the kHead actions in order.
struct Schedule {
  int micro_batches = 1;
  int head_passes = 0;
  bool training = true;                     // false: no backward passes
  std::vector<std::vector<Action>> orders;  // index: rank; the actions of all stages of the rank
  std::vector<int> rank_of_stage;           // index: stage

  int ranks() const { return static_cast<int>(orders.size()); }
  int stages() const { return static_cast<int>(rank_of_stage.size()); }
  bool has_chunks() const { return stages() > ranks(); }  // whether some rank has several stages
};

// Returns a schedule without actions for the stages and the ranks of the request.
Schedule empty_schedule(const ScheduleRequest& request);
// Each stage runs only forward passes and head passes. A rank runs the passes of its stages one stage after the other.
Schedule schedule_inference(const ScheduleRequest& request);
// Each rank runs all forward passes, then the head passes, then all backward passes.
Schedule schedule_gpipe(const ScheduleRequest& request);
// Each stage first runs min(M, stages - stage - 1 + extra_warm_up) forward passes, where M is the number of
// micro-batches of a replica. Then it runs one backward pass after each forward pass. REQUIRES: stage s is on rank s.
Schedule schedule_one_f_one_b(const ScheduleRequest& request);
// Returns the schedule of a kind. With one head pass for the step, all kinds but 1F1B run in two phases, with split
// backward passes (planner/schedules/phased.h) except for GPipe.
Schedule make_schedule(PipelineKind kind, const ScheduleRequest& request);

// Inserts the head passes of the request into a schedule without head passes: on every rank, head pass i stands before
// the first action that starts at or after the end of forward pass i of the last stage, in the simulation of `plain`.
// A single pass for the step waits for the last micro-batch.
Schedule insert_head_passes(Schedule plain, const ScheduleRequest& request);

// Checks the rules that every schedule must obey:
//   - Each stage is on a rank, and each rank has a stage. Actions are on the rank of their stage.
//   - Each stage runs each forward pass once, and after it either the whole backward pass of the micro-batch or its two
//     parts, first the gradients of inputs.
//   - Passes that add gradients of weights, whole or not, run in ascending order on each stage
//     (docs/internals/determinism.md, "Gradient partials"). So do forward passes, passes that make gradients of inputs,
//     and head passes; the latter in the same order on all ranks.
//   - On the last stage, a head pass runs after the forward passes of its micro-batches and before their backward
//     passes.
//   - Ranks that run their lists in order do not deadlock.
// Errors: kContent that names the fault and its place; for a deadlock, the action before which each rank waits.
Status check_schedule(const Schedule& schedule);

// "F0", "B3", "I2", "W2", "H1": the kind and the index. With the stage: "F0.2" is forward pass 0 of stage 2.
std::string to_text(const Action& action, bool with_stage = false);
// One line per rank. Stages are only printed if some rank has several.
std::string to_text(const Schedule& schedule);

}  // namespace xrun::planner
