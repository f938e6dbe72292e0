// 1F1B: a stage first runs as many forward passes as there are later stages, which fills the pipeline. Then it runs one
// backward pass after each forward pass, so stage s of S holds at most S - s micro-batches. Source: Narayanan et al.,
// "PipeDream", SOSP 2019; the flush at the end of the step is that of "Memory-Efficient Pipeline-Parallel DNN
// Training", ICML 2021. Head passes (docs/internals/algorithms.md, "Head passes in a schedule"): the schedule without
// head passes is simulated first. On every stage, head pass H_i is inserted before the first action that starts at or
// after the end of F_i on the last stage in that simulation. All actions are then ordered by time, so stages never wait
// for one another in a cycle.
#include <algorithm>

#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {

Schedule schedule_one_f_one_b(const ScheduleRequest& request) {
  const int stages = static_cast<int>(request.forward.size());
  const int count = request.micro_batches;
  Schedule plain{.micro_batches = count};
  for (int s = 0; s < stages; ++s) {
    auto& order = plain.orders.emplace_back();
    order.reserve(2 * static_cast<size_t>(count));
    const int ahead = std::min(count, stages - 1 - s);
    for (int i = 0; i < ahead; ++i) {
      order.push_back({ActionKind::kForward, i});
    }
    for (int i = ahead; i < count; ++i) {
      order.push_back({ActionKind::kForward, i});
      order.push_back({ActionKind::kBackward, i - ahead});
    }
    for (int i = count - ahead; i < count; ++i) {
      order.push_back({ActionKind::kBackward, i});
    }
  }
  if (request.head_passes == 0) {
    return plain;
  }
  // Passes get a positive time, since otherwise actions could not be ordered by time.
  ScheduleRequest timed = request;
  for (auto* list : {&timed.forward, &timed.backward}) {
    for (Seconds& time : *list) {
      time = std::max(time, 1e-9);
    }
  }
  const ScheduleTimes times = simulate(plain, timed);
  std::vector<Seconds> last_forward(static_cast<size_t>(count), 0);
  for (const ActionTime& time : times.stages.back()) {
    if (time.action.kind == ActionKind::kForward) {
      last_forward[static_cast<size_t>(time.action.index)] = time.end;
    }
  }
  Schedule schedule{.micro_batches = count, .head_passes = request.head_passes};
  for (const auto& stage : times.stages) {
    auto& order = schedule.orders.emplace_back();
    order.reserve(stage.size() + static_cast<size_t>(request.head_passes));
    int next = 0;
    const auto ends_by = [&](Seconds start) {
      // A single head pass for the whole step must wait for the last micro-batch.
      const int micro_batch = request.head_passes == 1 ? count - 1 : next;
      return next < request.head_passes && last_forward[static_cast<size_t>(micro_batch)] <= start;
    };
    for (const ActionTime& time : stage) {
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
