#include "planner/schedules/saved_peaks.h"

#include <algorithm>

namespace xrun::planner {

SavedBytes saved_bytes(const ScheduleRequest& request) {
  SavedBytes bytes{.saved = request.saved, .retained = request.retained};
  if (bytes.saved.empty()) {
    const std::vector<int> ranks = empty_schedule(request).rank_of_stage;
    for (const int rank : ranks) {
      bytes.saved.push_back(1 / static_cast<double>(std::ranges::count(ranks, rank)));
    }
  }
  if (bytes.retained.empty()) {
    bytes.retained = bytes.saved;
  }
  return bytes;
}

std::vector<double> saved_peaks(const Schedule& schedule, const ScheduleRequest& request) {
  const SavedBytes bytes = saved_bytes(request);
  std::vector<double> peaks;
  for (const auto& order : schedule.orders) {
    double now = 0;
    double& peak = peaks.emplace_back(0);
    for (const Action& action : order) {
      const auto s = static_cast<size_t>(action.stage);
      if (action.kind == ActionKind::kForward) {
        now += bytes.saved[s];
        peak = std::max(peak, now);
      } else if (action.kind == ActionKind::kBackward) {
        now -= bytes.saved[s];
      } else if (action.kind == ActionKind::kInputGradient) {
        now -= bytes.saved[s] - bytes.retained[s];
      } else if (action.kind == ActionKind::kWeightGradient) {
        now -= bytes.retained[s];
      }
    }
  }
  return peaks;
}

bool fits_memory(const std::vector<double>& peaks, const ScheduleRequest& request) {
  constexpr double kRounding = 1 + 1e-9;
  for (size_t r = 0; r < peaks.size() && !request.memory.empty(); ++r) {
    if (peaks[r] > request.memory[r] * kRounding) {
      return false;
    }
  }
  return true;
}

}  // namespace xrun::planner
