// The order of passes in which the interleaved schedules and ZB-H1 agree.
#pragma once

#include "planner/schedules/schedule.h"

namespace xrun::planner {

struct InterleavedOrder {
  int round = 1;              // micro-batches whose passes run on one chunk of a rank before those of the next chunk
  int warm_up_slope = 1;      // forward passes that a rank first runs more than the next rank
  bool split_passes = false;  // after the first r input gradients of rank r, each is followed by one weight gradient
};

// Rank r of p first runs (v - 1) · round + slope · (p - 1 - r) forward passes on its v chunks, then one backward pass
// after each forward pass, then the remaining backward passes. Forward passes run on the chunks in turn, `round` passes
// on each; backward passes too, on the last chunk first. A weight gradient that is left runs at the end.
// REQUIRES: stage s is on rank s mod p; `round` divides the number of micro-batches.
Schedule interleaved_order(const ScheduleRequest& request, const InterleavedOrder& how);

}  // namespace xrun::planner
