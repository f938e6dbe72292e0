// The programs for the smaller steps of a run whose batch grows. They equal the plan's program, which is for the last
// size of the batch, except that they have fewer micro-batches.
#pragma once

#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Fills Plan::smaller, and enlarges the arenas of Plan::training if a smaller step needs more memory than the last one.
// Does nothing if the batch does not grow. `module` must be prepared for training; it and `facts` must be those with
// which the plan was made. Errors: those of emit and of the verifier; XG0625 for a loaded plan whose arenas are too
// small for smaller steps, or whose weights have other places than in the smaller programs.
Status add_step_programs(Plan& plan, const Module& module, const KernelFacts& facts);

}  // namespace xrun::planner
