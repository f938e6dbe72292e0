// GPipe: a rank runs all forward passes, then the head passes, then all backward passes; with several stages, those of
// the last one first. Backward passes of a stage run in ascending order, since every schedule must add gradients in
// that order (docs/internals/determinism.md, "Gradient partials"). Source: Huang et al., "GPipe", NeurIPS 2019.
#include "planner/schedules/schedule.h"

namespace xrun::planner {

Schedule schedule_gpipe(const ScheduleRequest& request) {
  Schedule schedule = schedule_inference(request);
  schedule.training = true;
  for (int s = schedule.stages() - 1; s >= 0; --s) {
    auto& order = schedule.orders[static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(s)])];
    for (int i = 0; i < request.micro_batches; ++i) {
      order.push_back({ActionKind::kBackward, i, s});
    }
  }
  return schedule;
}

}  // namespace xrun::planner
