// The data of the page of a plan (planner/report/page/html_page.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

// Returns {report, texts, layers, inputs, schedule, memory, rates, what_if, measured}:
//   report    the document of `xrun show --format json`
//   texts     the bound of the step and its limit, as sentences
//   layers    the layers of the graph, each with the indices of its operators in report.ops
//   inputs    for each operator of report.ops the operators whose results it reads
//   schedule  devices that are drawn, and their instructions as columns; times are whole nanoseconds. `waits` is the
//             instruction that ended last of those for which an instruction waits, as an index in `labels`
//   memory    the curves of these devices and the host (memory_curves_json), with the parts of each peak
//   rates     operations and bytes a second of one worker
//   what_if   the step if a part of it were faster (planner/report/page/what_if.h)
//   measured  null, or the measured begin and end of each instruction of `schedule` and the step
// Schedules of more than kMostDrawn instructions lack the last devices, whose number is schedule.left_out.
nlohmann::ordered_json page_json(const Plan& plan, const Module& module, const MeasuredTimes* measured);

inline constexpr size_t kMostDrawn = 12'000;

}  // namespace xrun::planner
