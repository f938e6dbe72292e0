// Decides which logits a head keeps from the forward to the backward pass (HeadShape::kept_blocks). The backward pass
// does not have to compute kept logits again, so memory that a plan leaves unused saves time.
#pragma once

#include "planner/search/fit.h"

namespace xrun::planner {

// Sets the numbers of kept blocks in the shards of `decision`, from which `fitted` was made: as many as fit into the
// memory that `fitted` leaves unused, for the heads where this saves time. Updates the times of the heads. Returns
// whether any blocks are kept.
bool keep_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits, Decision& decision);

}  // namespace xrun::planner
