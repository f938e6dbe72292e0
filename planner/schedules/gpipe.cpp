// GPipe: a stage runs all forward passes, then the head passes, then all backward passes. Backward passes run in
// ascending order, since every schedule must add gradients in that order (docs/internals/determinism.md, "Gradient
// partials"). Source: Huang et al., "GPipe", NeurIPS 2019.
#include "planner/schedules/schedule.h"

namespace xrun::planner {

Schedule schedule_gpipe(const ScheduleRequest& request) {
  Schedule schedule = schedule_inference(request);
  schedule.training = true;
  for (auto& order : schedule.orders) {
    for (int i = 0; i < request.micro_batches; ++i) {
      order.push_back({ActionKind::kBackward, i});
    }
  }
  return schedule;
}

}  // namespace xrun::planner
