// Cuts whose schedule takes the least time (docs/internals/algorithms.md, "Cuts for a schedule").
#pragma once

#include <functional>
#include <optional>

#include "planner/partition/partition.h"

namespace xrun::planner {

struct ScheduleCosts {
  std::function<Seconds(const Partition&)> step;  // the time of a step with these stages
  Seconds hand_over = 0;                          // `step` adds this to each pass of a stage
  Seconds heads = 0;                              // the time of all head passes of a step
  std::vector<Seconds> updates = {};  // index: layer; the least that it adds to the time after the passes of its stage
  Seconds after = 0;                  // the time after the updates of all stages
  Seconds floor = 0;                  // the least time before that, whatever the cuts
  int tries = 64;                     // the most calls of `step`
};

// Returns the cuts with the shortest step if it is more than a thousandth shorter than `best`, the step with the cuts
// `known`; otherwise nothing, also for schedules other than GPipe and 1F1B. Memory limits of the request hold; with
// limits that stages share, nothing is searched. In a long chain, only cuts near those of `known` are tried. The search
// is given up after many steps.
std::optional<Partition> find_faster_cuts(const PartitionRequest& request, const Partition& known, Seconds best,
                                          const ScheduleCosts& costs);

}  // namespace xrun::planner
