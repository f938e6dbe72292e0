// Partition under a limit on the memory of all stages together, so that memory that one stage frees is available to the
// others.
#pragma once

#include "planner/partition/partition.h"

namespace xrun::planner {

// Returns the best partitions whose memory is at most request.total, best first, with distinct cuts; empty if no
// partition fits. The first one is optimal unless the search was given up, which `proven` says. The request has
// Recompute::kAuto.
std::vector<Partition> partition_within_total(const PartitionRequest& request);

}  // namespace xrun::planner
