// Logits that heads keep from the forward to the backward pass (HeadShape::kept_blocks): memory that a plan leaves over
// saves products.
#pragma once

#include "planner/search/fit.h"

namespace xrun::planner {

// Gives the shards of `decision`, from which `fitted` was made, as many kept blocks as fit into the memory that is
// left, where that saves time, and the heads their times. Whether any are kept.
bool keep_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits, Decision& decision);

}  // namespace xrun::planner
