// Builds of the graphs of nearest classes with which `active_classes = knn(...)` selects: their time on the machine of
// a plan, and the time that they add to a run, whose steps share the processors with them.
#pragma once

#include <optional>

#include "graph/base/diagnostic.h"
#include "planner/cost_model.h"
#include "planner/plan.h"

namespace xrun::planner {

// The builds of all heads of a program that have graphs.
std::vector<GraphBuild> graph_builds(const Program& program, const CostModel& cost);

// The time to build all graphs of a plan, which are built concurrently.
Seconds build_time(const Plan& plan);

// The builds of a run among its steps. `graph_period` returns nullopt without graphs, or if `rebuild` depends on an
// unknown number of samples.
struct GraphPeriod {
  double steps = 1;    // number from one build to the next
  Seconds time = 0;    // time of these steps without a build
  int64_t builds = 0;  // number in the run; 0 if its length is unknown
  Seconds added = 0;   // average per step, since a build uses the processors of the steps
};
std::optional<GraphPeriod> graph_period(const Plan& plan, const Module& module);

// Warns with XG0819 if a build takes longer than the time to the next one, and all together take noticeable time.
std::optional<Diagnostic> slow_graphs(const Plan& plan, const Module& module);

}  // namespace xrun::planner
