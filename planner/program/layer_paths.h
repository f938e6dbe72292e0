// Finds the layers that hints of `schedule` name by their paths: pins to stages, and layers that run again in the
// backward pass.
#pragma once

#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"

namespace xrun::planner {

// Returns the stage to which each of `nodes`, the forward nodes outside of head passes in order, is pinned; -1: any.
// Errors: kContent XG0604 for a path that names no layer; XG0608 for a pin to a stage that does not exist, or for
// different pins of operators that are computed together.
Result<std::vector<int>> pinned_stages(const Module& module, std::span<const NodeId> nodes);

// Returns whether the hint `recompute` names each of `nodes` by a path. Errors: kContent XG0604 for a path that names
// no layer.
Result<std::vector<bool>> named_to_run_again(const Module& module, std::span<const NodeId> nodes);

}  // namespace xrun::planner
