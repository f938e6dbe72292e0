// The figures of a plan in reports: parts, devices, communication.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/cost/simulate.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Returns the memory in which all workers of the loader together decode pictures; 0 if the data could not be read.
inline Bytes decoding_of(const Plan& plan) { return plan.decoding * plan.machine.threads; }

// Returns the seconds that the busiest device spends in the instructions for which `wanted` is true.
Seconds busiest(const Program& program, const std::function<bool(const Instruction&)>& wanted);

// A row of the text plan: the backbone, a head, or all the rest. The times of all rows add up to the step, and their
// memory, without that of rows elsewhere, to the largest arena.
struct PlanPart {
  std::string name;
  std::string how;
  int64_t parameters = 0;
  Bytes memory = 0;        // bytes on the largest device or, if the part is elsewhere, on the device with most of it
  bool elsewhere = false;  // whether the largest device has nothing of the part
  // On the busiest device. In the row "waiting" it is the rest of the step; in the row "overlap" it is negative,
  // because parts run at the same time.
  Seconds time = 0;
};
std::vector<PlanPart> list_parts(const Plan& plan, const Module& module);

struct DeviceSummary {
  int device = 0;                   // kHost: the loader's batches
  std::string what;                 // "stage 0, classes 0..10 495"
  int stages = 0;                   // number of stages on the device
  std::vector<int32_t> heads = {};  // indices in Graph::heads, one for each shard on the device
  int threads = 0;
  Bytes arena = 0;
  Bytes live_max = 0;
};
std::vector<DeviceSummary> list_devices(const Plan& plan, const Module& module);

struct CommSummary {
  std::string what;  // kind of the instructions, such as "all_gather"
  int count = 0;     // number of exchanges per step
  Bytes bytes = 0;   // per step; an exchange counts for one of its members
  Seconds time = 0;
};
std::vector<CommSummary> list_communication(const Plan& plan);

// One size of a growing batch. `list_sizes` returns them in ascending order, or an empty list if the batch does not
// grow.
struct SizeSummary {
  int64_t batch = 0;
  Seconds step = 0;
  Bytes used = 0;  // bytes that steps of this size use; the arenas are large enough for the last size
};
std::vector<SizeSummary> list_sizes(const Plan& plan);

// The predicted times of an epoch and of the whole run. They include the builds of graphs, but not evaluation and
// saves. The time of an epoch is for steps of the last size. A time is nullopt if it depends on an unknown number of
// samples.
struct RunTimes {
  std::optional<Seconds> epoch;
  std::optional<Seconds> run;
};
RunTimes run_times(const Plan& plan, const Module& module);

// Returns the times of the plan's training program. Plans are verified before, so there is no error.
ProgramTimes times_of(const Plan& plan);
// Returns the time by which reading data makes a step longer than its instructions, whose times are given.
Seconds data_time(const Plan& plan, const ProgramTimes& times);
// Returns the times of another program of a plan (Plan::smaller).
ProgramTimes times_of(const Program& program, const Machine& machine);

}  // namespace xrun::planner
