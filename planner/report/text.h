// Plans as text for people: the page of `xrun plan`, tables and a Gantt view (docs/reference/command/plan.md,
// "Planning").
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The page that `xrun plan` prints, ending in a newline. `module` is the prepared training module. Text is wrapped at
// `columns`; 0: no limit.
std::string report_text(const Plan& plan, const Module& module, int columns = 0);

// Returns the table "layers", "memory", "comm" or "why"; empty for any other name. `depth` is that of list_layers.
std::string report_table(const Plan& plan, const Module& module, std::string_view table, int depth = 0);

// Returns a Gantt view of a step, with a legend. Each device has a line of at most `columns` characters, from the start
// to the end of the step. F and B with a number are the passes of a micro-batch, H is a head pass, U an update; '='
// continues the pass before it, '.' means that the device is idle. Lines with the causes of idle time and with the time
// of the step follow, and a hint if the plan nearly fills its memory and a compared plan needs less.
std::string report_gantt(const Plan& plan, const Module& module, int columns);

}  // namespace xrun::planner
