// The differences between the model and machine of a plan and those of now.
#pragma once

#include <string>
#include <vector>

#include "planner/program/plan.h"

namespace xrun::planner {

// Returns a sentence for each change since the plan was made: of source files, of the mathematics, of the processor and
// its kernels, of devices and threads. If the plan keeps its model (Plan::kept), the largest changes of parameters and
// operators are among them, at most five. Empty: nothing has changed.
std::vector<std::string> list_changes(const Plan& plan, const Module& training, const KernelFacts& facts,
                                      const Machine& machine);

}  // namespace xrun::planner
