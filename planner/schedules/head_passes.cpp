// Head passes of schedules in which backward passes begin before all forward passes have ended
// (docs/internals/algorithms.md, "Head passes in a schedule"). The schedule without head passes is simulated. On every
// rank, head pass H_i is inserted before the first action that starts at or after the end of F_i on the last stage in
// that simulation. All actions are then ordered by time, so ranks never wait for one another in a cycle.
// Tests: tests/planner/schedules/schedule_test.cpp
#include <algorithm>

#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {

Schedule insert_head_passes(Schedule plain, const ScheduleRequest& request) {
  if (request.head_passes == 0) {
    return plain;
  }
  // Passes get a positive time, since otherwise actions could not be ordered by time.
  ScheduleRequest timed = request;
  for (auto* list : {&timed.forward, &timed.backward, &timed.input_gradient, &timed.weight_gradient}) {
    for (Seconds& time : *list) {
      time = std::max(time, 1e-9);
    }
  }
  const ScheduleTimes times = simulate(plain, timed);
  std::vector<Seconds> last_forward(static_cast<size_t>(plain.micro_batches), 0);
  for (const ActionTime& time : times.ranks[static_cast<size_t>(plain.rank_of_stage.back())]) {
    if (time.action.kind == ActionKind::kForward && time.action.stage == plain.stages() - 1) {
      last_forward[static_cast<size_t>(time.action.index)] = time.end;
    }
  }
  Schedule schedule = std::move(plain);
  schedule.head_passes = request.head_passes;
  for (size_t r = 0; r < times.ranks.size(); ++r) {
    auto& order = schedule.orders[r];
    order.clear();
    order.reserve(times.ranks[r].size() + static_cast<size_t>(request.head_passes));
    int next = 0;
    const auto ends_by = [&](Seconds start) {
      // A single head pass for the whole step must wait for the last micro-batch.
      const int micro_batch = request.head_passes == 1 ? schedule.micro_batches - 1 : next;
      return next < request.head_passes && last_forward[static_cast<size_t>(micro_batch)] <= start;
    };
    for (const ActionTime& time : times.ranks[r]) {
      while (ends_by(time.start)) {
        order.push_back({ActionKind::kHead, next++});
      }
      order.push_back(time.action);
    }
    while (next < request.head_passes) {
      order.push_back({ActionKind::kHead, next++});
    }
  }
  return schedule;
}

}  // namespace xrun::planner
