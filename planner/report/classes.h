// Reports how many classes fit (planner/search/class_fit.h), as text for people and as JSON.
#pragma once

#include <string>

#include "planner/search/class_fit.h"

namespace xrun::planner {

// Returns the page of `xrun plan --fit classes`, ending in a newline. Lines are at most `columns` wide, except for
// longer words; 0: no limit.
std::string report_classes(const ClassFits& fits, const Module& module, const Machine& machine, int columns = 0);

// Returns the JSON document
// {v, model, head, classes, dim, cluster: {name, memory}, choices: [{rows, active, of_text, classes, complete,
// step_seconds, graph_seconds, memory, device_memory, limit}], plans}.
std::string classes_json(const ClassFits& fits, const Module& module, const Machine& machine);

}  // namespace xrun::planner
