// A run laid over its plan, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

// A table with the predicted and the measured time of each kind of instruction, summed over the busiest device, and of
// the whole step.
std::string measured_text(const Plan& plan, const MeasuredTimes& measured);

// The document of gantt_json with the key `measured`, {steps, step_seconds}, and the keys `measured_begin` and
// `measured_end` in each instruction that was measured.
std::string measured_gantt_json(const Plan& plan, const MeasuredTimes& measured);

}  // namespace xrun::planner
