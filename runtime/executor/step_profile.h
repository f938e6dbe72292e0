// Profiles steps: mean times by device and kind of instruction over the measured steps, with the predicted times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "planner/program/program.h"
#include "runtime/executor/step_times.h"

namespace xrun::runtime {

// A row of a profile: the instructions of one kind on one device, or the rest of the step on that device
// (communication, idle time).
struct ProfileRow {
  enum Sort { kCompute, kComm, kIdle };
  int device = 0;
  Sort sort = kCompute;
  std::string what;  // "backward of stage 1 (block.conv .. fc)"
  int count = 0;     // number of instructions per step; 0: the rest of the step
  Seconds seconds = 0;
  Seconds predicted = 0;
};

// Threads: one.
class StepProfile {
 public:
  // `own`: the devices of this rank, for which the profile has rows.
  //   predicted  times of instructions, as an executor would measure them; empty: unknown
  StepProfile(const planner::Program& program, const Graph& graph, std::span<const Timing> predicted, DeviceRange own);

  // Adds one step. Allocates nothing.
  void add(std::span<const Timing> timings, const StepTimes& times);

  int64_t steps() const { return steps_; }
  // Returns the means per step, sorted by device, and for each device in the order of its work. The times of a device
  // add up to the time from the start of a step to the device's last instruction.
  std::vector<ProfileRow> rows() const;

 private:
  std::vector<ProfileRow> rows_;  // sums over the steps
  std::vector<int32_t> row_of_;   // index: instruction; -1: an exchange
  int64_t steps_ = 0;
};

}  // namespace xrun::runtime
