// A limit on the memory of all stages together: memory that one stage frees is available to the others.
#pragma once

#include <functional>

#include "planner/search/partition.h"

namespace xrun::planner {

// The best partitions that need no more than request.total, found with `partition`, which ignores that field. Memory
// gets a price, the smallest one for which the stages stay within the total, since their memory falls as the price
// rises. Layers of one price run again all or none, so the remaining memory goes to those that cost most to run again.
std::vector<Partition> partition_within_total(
    PartitionRequest request, const std::function<std::vector<Partition>(const PartitionRequest&)>& partition);

}  // namespace xrun::planner
