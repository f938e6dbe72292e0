// Fixes: changes of the model text with which a plan that does not fit would fit.
#pragma once

#include <string>
#include <vector>

#include "planner/search/row_blocks.h"

namespace xrun::planner {

// The limit that a program exceeds, and the memory of a program that counts for this limit: of the whole run, of the
// node that needs most, or of the largest device.
enum class Exceeded : uint8_t { kRun, kNode, kDevice };
Exceeded exceeded_by(const Fitted& fitted, const MemoryLimits& limits);
Bytes memory_for(Exceeded limit, const Fitted& fitted);

// Returns one line for each change with which a plan fits, for explain_infeasible, fastest first. These changes are
// tried: no hints, if the text has hints; other active classes or other formats of class rows, if a head is large; a
// smaller row block; the largest half, quarter, ... of the batch. Each line states whether its change affects
// what is learned. A change that has no legal plan is left out without an error.
//   refused   the choice for `training` itself, in which nothing fits
//   facts_of  returns the facts of the kernels of other row blocks; if null, other row blocks are not tried
std::vector<std::string> find_fixes(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                    const Choice& refused, const FactsOf& facts_of);

}  // namespace xrun::planner
