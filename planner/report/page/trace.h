// A step of a plan as a trace for ui.perfetto.dev (docs/guide/reading_a_plan.md, "In Perfetto").
#pragma once

#include <string>

#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

// Returns the bytes of a trace (perfetto.protos.Trace). Each device is a process, with a track of computations, tracks
// of exchanges (several if they overlap) and a counter of its live bytes. Each instruction is a slice, and a flow leads
// to it from each instruction of another device or stream that it waits for. Timestamps are nanoseconds from the start
// of the step. With measured times there are further tracks `run`, with a slice for each measured computation.
std::string perfetto_trace(const Plan& plan, const MeasuredTimes* measured = nullptr);

}  // namespace xrun::planner
