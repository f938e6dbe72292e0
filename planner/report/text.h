// Plans as text for people: the page of `xrun plan`, tables and a Gantt view (docs/reference/command/plan.md,
// "Planning").
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"
#include "planner/plan.h"

namespace xrun::planner {

// The page that `xrun plan` prints, ending in a newline. `module` is the prepared training module. Text is wrapped at
// `columns`; 0: no limit.
std::string report_text(const Plan& plan, const Module& module, int columns = 0);

// The table "layers", "memory", "comm" or "why"; empty for any other name. `depth`: of layers (list_layers).
std::string report_table(const Plan& plan, const Module& module, std::string_view table, int depth = 0);

// One line for each device over the time of a step, at most `columns` wide: F and B with their micro-batch, H head
// passes, U updates, '=' while they last, '.' idle; with a legend.
std::string report_gantt(const Plan& plan, int columns);

}  // namespace xrun::planner
