// Cuts whose schedule takes the least time (docs/internals/algorithms.md, "Cuts for a schedule").
#pragma once

#include <functional>
#include <optional>

#include "planner/partition/partition.h"

namespace xrun::planner {

struct ScheduleCosts {
  std::function<Seconds(const Partition&)> makespan;  // the time of the schedule with these stages
  Seconds hand_over = 0;                              // `makespan` adds this to each pass of a stage
  Seconds heads = 0;                                  // the time of all head passes of a step
};

// Returns the cuts with the least makespan if it is more than a thousandth less than that of each partition in `found`;
// otherwise nothing. Memory limits of the request hold; with limits that stages share, nothing is searched. The search
// is given up after many steps.
std::optional<Partition> find_faster_cuts(const PartitionRequest& request, const std::vector<Partition>& found,
                                          const ScheduleCosts& costs);

}  // namespace xrun::planner
