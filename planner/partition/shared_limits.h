// Partition under limits on the memory of several stages together, so that memory that one stage frees is available to
// the others: the limit on all devices, and the limits of the nodes of a cluster.
#pragma once

#include "planner/partition/partition.h"

namespace xrun::planner {

// Returns the limits that several stages share, the limit on the total first, without those that another one implies.
std::vector<NodeLimit> shared_limits(const PartitionRequest& request);

// Returns the best partitions within the shared limits of the request, best first, with distinct cuts; empty if no
// partition fits. The first one is optimal unless the search was given up, which `proven` says. The request has
// Recompute::kAuto.
std::vector<Partition> partition_within_shared(const PartitionRequest& request);

}  // namespace xrun::planner
