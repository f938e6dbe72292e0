// `xrun simulate --fit KEY`: the largest value of a key with which the model has a plan.
#pragma once

#include "planner/report/sweep/sweep.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/simulate/point_planner.h"
#include "runtime/cli/simulate/sweep_axis.h"

namespace xrun::cli {

// Searches the range by doubling and bisection, and then plans the neighbours of the result, since larger values may
// have plans although smaller ones have none. The points of the sweep are all values that were planned, in ascending
// order; all but the largest have the first plan that was found, not the best one. The search ends after a minute.
// `planner` has one key. Errors: that of the smallest value, if it has no plan.
Outcome<planner::Sweep> fit_key(PointPlanner& planner, const FitRange& range);

}  // namespace xrun::cli
