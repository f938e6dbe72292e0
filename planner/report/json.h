// Plans as one JSON document for programs (docs/command.md, "Planning"): minor versions only add keys.
#pragma once

#include <string>

#include "graph/module.h"
#include "planner/plan.h"

namespace xrun::planner {

// Of every document of a plan.
inline constexpr const char* kReportVersion = "1.2";

// {format_version, plan, model, digests, cluster, settings, data, parts, stages, shards, ops, memory, run_memory, comm,
// predicted, why, alternatives}, indented, ending in a newline. Bytes and seconds are plain numbers.
std::string report_json(const Plan& plan, const Module& module);

}  // namespace xrun::planner
