// The measured times of the instructions of a plan, from a file that `xrun train --profile` has written
// (docs/reference/formats.md, "Measured times").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Seconds from the start of the step; negative: the instruction was not measured.
struct MeasuredTime {
  Seconds begin = -1;
  Seconds end = -1;
  bool known() const { return begin >= 0 && end >= begin; }
};

struct MeasuredTimes {
  std::string plan;  // id of the plan
  int64_t steps = 0;
  Seconds step = 0;                        // median duration of a step
  std::vector<MeasuredTime> instructions;  // medians over the steps; index: InstructionId
};

// The file as text, ending in a newline: {v, plan, steps, step_seconds, instructions: [[begin, end] or null]}.
std::string measured_json(const MeasuredTimes& measured);

// Reads the text of a file named `path`. Errors: kContent XG0638 if it is not such a file or belongs to another plan.
Result<MeasuredTimes> read_measured(std::string_view text, const std::string& path, const Plan& plan);

}  // namespace xrun::planner
