// The data of the page of a plan (planner/report/page/html_page.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/module.h"
#include "planner/program/plan.h"
#include "planner/report/page/measured_times.h"

namespace xrun::planner {

// Returns {report, texts, layers, inputs, schedule, memory, backward, rates, what_if, measured}:
//   report    the document of `xrun show --format json`
//   texts     the bound of the step and its limit, as sentences
//   layers    the layers of the graph, each with the indices of its operators in report.ops
//   inputs    for each operator of report.ops the operators whose results it reads
//   schedule  devices that are drawn, and their instructions as columns; times are whole nanoseconds. `after` is the
//             instruction whose end starts an instruction (-1: none), `needs` its other dependences, `work` its time
//             on cores that are not shared; `elsewhere` has the label, device and end of those that are not drawn
//   memory    the curves of these devices and the host (memory_curves_json), with the parts of each peak:
//             [name, bytes, [[name of a buffer, bytes], ...], number of buffers]
//   backward  for each stage the number of operators of its backward pass, without those that run again
//   rates     operations and bytes a second of one worker
//   what_if   the step if a part of it were faster (planner/report/page/what_if.h)
//   measured  null, or the measured begin and end of each instruction of `schedule` and the step
// Schedules of more than kMostDrawn instructions lack the last devices, whose number is schedule.left_out.
nlohmann::ordered_json page_json(const Plan& plan, const Module& module, const MeasuredTimes* measured);

inline constexpr size_t kMostDrawn = 12'000;

}  // namespace xrun::planner
