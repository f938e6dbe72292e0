// Interleaved ZB1P: the interleaved schedule with split backward passes. Gradients of inputs leave a rank sooner, so
// fewer forward passes fill the pipeline. Gradients of weights fill the time in which ranks would wait at the end of
// the step. Sources: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024; Narayanan et al., "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", SC 2021.
#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/interleaved_order.h"

namespace xrun::planner {

Schedule schedule_zb1p(const ScheduleRequest& request) {
  return interleaved_order(request, {.round = round_size(request), .split_passes = true});
}

}  // namespace xrun::planner
