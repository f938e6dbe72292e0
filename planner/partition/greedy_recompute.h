// Greedy choices of the layers to run again for given cuts, under limits that stages share.
#pragma once

#include "planner/partition/partition.h"

namespace xrun::planner {

// Both functions take layers in the order of the seconds that a byte costs, and set the times, the memory and the
// objective of the partition.

/// Lets layers run again where a limit is exceeded, the cheapest ones first. @return whether the limits then hold
bool free_excess(const PartitionRequest& request, const std::vector<NodeLimit>& limits, Partition& partition);

/// Keeps the values of layers that run again in the memory that remains, those of the dearest layers first. The limit
/// of each stage holds, too.
void keep_layers(const PartitionRequest& request, const std::vector<NodeLimit>& limits, Partition& partition);

}  // namespace xrun::planner
