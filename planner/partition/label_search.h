// Exact search for the partition with the smallest objective within a limit on the memory of all stages together
// (docs/internals/algorithms.md, "A limit on the total").
#pragma once

#include <cstdint>
#include <optional>

#include "planner/partition/priced_stages.h"

namespace xrun::planner {

struct LabelRequest {
  const PartitionRequest& request;
  const PricedStages& bound;  // solved for stages that take at most `last`, at a price of 1 for a second and of
  double price = 0;           // `price` for a byte
  Seconds first = 0;          // the largest stage takes more than this, in the partitions that are searched,
  Seconds last = 0;           // and at most this
  double best = 0;            // only smaller objectives are of interest
};

// Searches all partitions of the request that fit into its total, except those that cannot be better than `best`.
// Returns the best one, or nothing if none is better. Each label that is made takes one from `steps`; if none remains,
// the search is given up, and `steps` is negative.
std::optional<Partition> search_labels(const LabelRequest& request, int64_t& steps);

}  // namespace xrun::planner
