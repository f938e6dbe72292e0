// Programs of the steps of a growing batch before it has its last size: the plan's program with fewer micro-batches and
// otherwise equal.
#pragma once

#include <vector>

#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "planner/plan.h"

namespace xrun::planner {

// Fills Plan::smaller, and enlarges the arenas of Plan::training if a smaller step should need more than the last. Does
// nothing if the batch does not grow. `module`: prepared for training, with the facts with which the plan was made.
// Errors: those of emit and of the verifier; XG0625, for a plan that was loaded, if its arenas are too small for
// smaller steps, or its weights have other places.
Status add_step_programs(Plan& plan, const Module& module, const KernelFacts& facts);

}  // namespace xrun::planner
