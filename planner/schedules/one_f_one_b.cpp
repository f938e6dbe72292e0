// 1F1B: a stage first runs as many forward passes as there are later stages, which fills the pipeline. Then it runs one
// backward pass after each forward pass, so stage s of S holds at most S - s micro-batches. If the first forward passes
// of a rank are more, a stage works while values travel. Source: Narayanan et al., "PipeDream", SOSP 2019; the flush at
// the end of the step is that of "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
#include <algorithm>

#include "planner/schedules/schedule.h"

namespace xrun::planner {

Schedule schedule_one_f_one_b(const ScheduleRequest& request) {
  const int count = request.micro_batches;
  Schedule plain = empty_schedule(request);
  for (int s = 0; s < plain.stages(); ++s) {
    auto& order = plain.orders[static_cast<size_t>(s)];
    order.reserve(2 * static_cast<size_t>(count));
    const int extra = request.extra_warm_up.empty() ? 0 : request.extra_warm_up[static_cast<size_t>(s)];
    const int ahead = std::min(count, plain.stages() - 1 - s + extra);
    for (int i = 0; i < ahead; ++i) {
      order.push_back({ActionKind::kForward, i, s});
    }
    for (int i = ahead; i < count; ++i) {
      order.push_back({ActionKind::kForward, i, s});
      order.push_back({ActionKind::kBackward, i - ahead, s});
    }
    for (int i = count - ahead; i < count; ++i) {
      order.push_back({ActionKind::kBackward, i, s});
    }
  }
  return insert_head_passes(std::move(plain), request);
}

}  // namespace xrun::planner
