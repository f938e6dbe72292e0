// Exact search for the partition with the smallest objective within limits on the memory of several stages together
// (docs/internals/algorithms.md, "Limits that stages share").
#pragma once

#include <cstdint>
#include <optional>

#include "planner/partition/priced_stages.h"

namespace xrun::planner {

struct LabelRequest {
  const PartitionRequest& request;
  const std::vector<NodeLimit>& limits;  // that several stages share
  const PricedStages& bound;             // solved for stages that take at most `last`, at a price of 1 for a second
  double credit = 0;                     // the prices of all bytes of the limits
  Seconds first = 0;                     // the largest stage takes more than this, in the partitions that are searched,
  Seconds last = 0;                      // and at most this
  double best = 0;                       // only smaller objectives are of interest
};

// Searches all partitions of the request that fit into its limits, except those that cannot be better than `best`.
// Returns the best one, or nothing if none is better. Each label that is made takes one from `steps`; if none remains,
// the search is given up, and `steps` is negative. It is also given up if a stage is subject to more than
// kMostLabelLimits limits that it shares with others.
std::optional<Partition> search_labels(const LabelRequest& request, int64_t& steps);

inline constexpr int kMostLabelLimits = 6;

}  // namespace xrun::planner
