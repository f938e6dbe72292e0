// ZB-H1: 1F1B with split backward passes. Rank r runs the gradients of weights r micro-batches late, so no rank needs
// more memory than the first one under 1F1B, and those that are left fill the end of the step. Source: Qi et al., "Zero
// Bubble Pipeline Parallelism", ICLR 2024.
#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/interleaved_order.h"

namespace xrun::planner {

Schedule schedule_zb_h1(const ScheduleRequest& request) {
  return interleaved_order(request, {.round = request.micro_batches, .split_passes = true});
}

}  // namespace xrun::planner
