// Fixes: changes of the model text with which a plan that does not fit would fit.
#pragma once

#include <string>
#include <vector>

#include "planner/search/row_blocks.h"

namespace xrun::planner {

// Lines for explain_infeasible, fastest first: removed hints, if there are any; for a large head other active classes,
// or other formats of class rows; a smaller row block; the largest half, quarter, ... of the batch that fits. All but
// the first change training. A change without any legal plan is left out, without an error.
//   refused   the choice for `training` itself, in which nothing fits
//   facts_of  facts of the kernels of other row blocks; without it no other row blocks are tried
std::vector<std::string> find_fixes(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                    const Choice& refused, const FactsOf& facts_of);

}  // namespace xrun::planner
