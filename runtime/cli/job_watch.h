// The end of a run that has lost a rank: who it was, on which host, and where the run goes on.
#pragma once

#include <optional>

#include "runtime/cli/job.h"

namespace xrun::cli {

// Connects the ranks and begins to watch them; all ranks call it. An error is the same on all of them and no reason to
// stop: the run goes on without a watch.
Status watch_ranks(Job& job);

// XG0840 (exit 75), in place of whatever a rank met in consequence; none: no rank is lost.
std::optional<Error> loss_of(const Job& job);
// Whether this rank tells the user of it: one of those that are left does, and one that stood still itself.
bool tells_loss(const Job& job);

}  // namespace xrun::cli
