// Partition under a limit on the memory of all stages together, so that memory that one stage frees is available to the
// others.
#pragma once

#include <functional>

#include "planner/search/partition.h"

namespace xrun::planner {

// Returns the best partitions whose memory is at most request.total. The function `partition` ignores that field, so it
// is called with different prices of memory: the higher the price of a kept byte, the more layers run again and the
// less memory the stages need. The result is for the smallest price at which they stay within the total. Layers with
// equal cost per byte all begin to run again at the same price, so some memory may remain; it is used to keep the
// layers that cost most to run again.
std::vector<Partition> partition_within_total(
    PartitionRequest request, const std::function<std::vector<Partition>(const PartitionRequest&)>& partition);

}  // namespace xrun::planner
