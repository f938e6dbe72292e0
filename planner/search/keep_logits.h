// Logits that heads keep from the forward to the backward pass (HeadShape::kept_blocks), since memory that a plan does
// not need can save products.
#pragma once

#include "planner/search/fit.h"

namespace xrun::planner {

// Gives the shards of `decision`, from which `fitted` was made, as many kept blocks as fit into the remaining memory,
// if that saves time, and updates the times of the heads. Returns whether any are kept.
bool keep_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits, Decision& decision);

}  // namespace xrun::planner
