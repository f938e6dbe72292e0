// Reports of the cuts of a profile.
#pragma once

#include <string>

#include "planner/profiles/graph_cuts.h"

namespace xrun::planner {

// Returns the table of stages and the largest time with its bound. `name`: the file of the profile; `columns`: width of
// the page, 0 for no limit.
std::string report_cuts(const LayerProfile& profile, const GraphCuts& cuts, const std::string& name, int columns);

// Returns the document {v, file, stages: [{nodes, time_ms}], bottleneck_ms, lower_bound_ms, sources}, indented, ending
// in a newline. `nodes` are the names of the layers, each after those that it reads; `sources` are the layers that read
// no other one, without those of the kind "Input".
std::string cuts_json(const LayerProfile& profile, const GraphCuts& cuts, const std::string& name);

}  // namespace xrun::planner
