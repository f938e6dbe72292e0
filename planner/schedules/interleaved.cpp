// Interleaved 1F1B: a rank has several chunks of the model, so a micro-batch passes through all ranks several times,
// and filling the pipeline takes the time of chunks instead of that of stages. In return, more values travel between
// ranks, and a rank holds more micro-batches. Source: Narayanan et al., "Efficient Large-Scale Language Model Training
// on GPU Clusters Using Megatron-LM", SC 2021.
#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/interleaved_order.h"

namespace xrun::planner {

Schedule schedule_interleaved(const ScheduleRequest& request) {
  return interleaved_order(request, {.round = round_size(request), .warm_up_slope = 2});
}

}  // namespace xrun::planner
