// The stages, layers and operators of a plan as JSON, with the times that the planner counted for them
// (planner/report/layers.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Returns [{index, devices, layers, first, last, recomputed, forward_seconds, backward_seconds, parameter_bytes,
// activation_bytes}]; `backward_seconds` includes the operators that run again.
nlohmann::ordered_json stages_json(const Plan& plan, const Graph& graph);

// Returns [{path, op, stage, output, flops, forward_seconds, backward_seconds, recompute_seconds}] for the operators of
// all stages. The sums of the times are those of the stage: `backward_seconds` and `recompute_seconds` together are its
// `backward_seconds`. Times are null if the plan file of an earlier version lacks them.
nlohmann::ordered_json operators_json(const Plan& plan, const Graph& graph);

// Returns [{name, output, stage, parameters, forward_flops, forward_seconds, backward_seconds, recompute_seconds,
// saved, nodes: [{path, op, and the times}]}]. A head has the stage null and no `nodes`. `depth` is that of
// list_layers.
nlohmann::ordered_json layers_json(const Plan& plan, const Module& module, int depth);

// Adds the key `layer_times`, {file, sha256, rows, layers, ops, all_ops}, if the plan was made with the user's times of
// layers (UsedTimes).
void add_layer_times(const Plan& plan, nlohmann::ordered_json& document);

}  // namespace xrun::planner
