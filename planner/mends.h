// Mends: changes of the model text under which a plan that does not fit would.
#pragma once

#include <string>
#include <vector>

#include "planner/choose.h"

namespace xrun::planner {

// Lines for explain_misfit: hints left out, where there are any; then the largest half, quarter, ... of the batch that
// fits, which changes training. A change that leaves nothing to plan is no mend, and no error either.
//   refused  what was found of `training` itself
std::vector<std::string> find_mends(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                    const Choice& refused);

}  // namespace xrun::planner
