// Predicts the builds of the graphs of nearest classes from which `active_classes = knn(...)` selects. A build runs
// during the steps and shares the processors with them, so it also makes the steps of a run slower.
#pragma once

#include <optional>

#include "graph/base/diagnostic.h"
#include "planner/cost/cost_model.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Returns the predicted build times of all heads of a program that have graphs.
std::vector<GraphBuild> graph_builds(const Program& program, const CostModel& cost);

// Returns the time after which all graphs of a plan are built; they are built concurrently.
Seconds build_time(const Plan& plan);

// The period in which a training run builds its graphs again. `graph_period` returns nullopt for a plan without graphs,
// or if `rebuild` depends on an unknown number of samples.
struct GraphPeriod {
  double steps = 1;    // number of steps from one build to the next
  Seconds time = 0;    // time of these steps without a build
  int64_t builds = 0;  // number of builds in the training run; 0 if its length is unknown
  Seconds added = 0;   // average time that builds add to a step, since they use the processors of the step
};
std::optional<GraphPeriod> graph_period(const Plan& plan, const Module& module);

// Warns with XG0819 if a build takes longer than the period of builds and all builds together take noticeable time.
std::optional<Diagnostic> slow_graphs(const Plan& plan, const Module& module);

}  // namespace xrun::planner
