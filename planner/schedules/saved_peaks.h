// The memory that the micro-batches of a schedule need at once.
#pragma once

#include <vector>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

// The bytes that stages save for backward passes, in the unit of a request.
struct SavedBytes {
  std::vector<double> saved;     // index: stage; from the forward pass to the end of the backward pass
  std::vector<double> retained;  // index: stage; the part of `saved` that a weight gradient still needs
};

// Returns the bytes of the request. If it does not give them, every rank saves 1 for a micro-batch, which its stages
// share equally; peaks then count micro-batches. If it does not give the retained part, a weight gradient needs
// everything.
SavedBytes saved_bytes(const ScheduleRequest& request);

// Returns for each rank the most bytes that its stages save at once. Activations are saved from the start of a forward
// pass to the end of the backward pass. The end of an input gradient releases all that the weight gradient does not
// need. REQUIRES: check_schedule has accepted the schedule, which is one of a training.
std::vector<double> saved_peaks(const Schedule& schedule, const ScheduleRequest& request);

// Returns whether the peaks are at most `memory` of the request, up to rounding.
bool fits_memory(const std::vector<double>& peaks, const ScheduleRequest& request);

}  // namespace xrun::planner
