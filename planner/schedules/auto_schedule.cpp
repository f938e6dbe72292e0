#include "planner/schedules/auto_schedule.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/greedy_schedule.h"
#include "planner/schedules/saved_peaks.h"
#include "planner/schedules/simulate_schedule.h"

namespace xrun::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Best {
 public:
  explicit Best(const ScheduleRequest& request) : request_(request) {}

  void add(Schedule schedule, std::string_view name) {
    const std::vector<double> peaks = saved_peaks(schedule, request_);
    if (!fits_memory(peaks, request_)) {
      note_excess(peaks);
      return;
    }
    const Seconds makespan = simulate(schedule, request_).makespan;
    const std::pair score{makespan, std::accumulate(peaks.begin(), peaks.end(), 0.0)};
    if (!best_ || score < score_) {
      score_ = score;
      best_ = {std::move(schedule), std::string(name), makespan};
    }
  }

  Result<AutoSchedule> result() && {
    if (best_) {
      return *std::move(best_);
    }
    return Error{ErrorKind::kInfeasible, "XG0601",
                 fmt::format("no schedule fits: rank {} would save {:.6g} for its backward passes, of at most {:.6g}",
                             rank_, needed_, request_.memory[rank_]),
                 "more ranks, smaller micro-batches, or layers that run again"};
  }

 private:
  void note_excess(const std::vector<double>& peaks) {
    size_t worst = 0;
    const auto excess = [&](size_t r) { return peaks[r] / request_.memory[r]; };
    for (size_t r = 1; r < peaks.size(); ++r) {
      worst = excess(r) > excess(worst) ? r : worst;
    }
    if (excess(worst) < excess_) {
      excess_ = excess(worst);
      rank_ = worst;
      needed_ = peaks[worst];
    }
  }

  const ScheduleRequest& request_;
  std::optional<AutoSchedule> best_;
  std::pair<Seconds, double> score_;  // makespan, sum of the peaks
  double excess_ = kInfinity;  // the largest part of its memory that a rank needs, in the schedule with the least
  size_t rank_ = 0;
  double needed_ = 0;
};

// Returns requests with other numbers of forward passes before the first backward pass: as usual, one more except on
// the last rank, and so many that a value may travel as long as a pass takes.
std::vector<ScheduleRequest> other_warm_ups(const ScheduleRequest& request) {
  const int ranks = empty_schedule(request).ranks();
  std::vector<ScheduleRequest> all(3, request);
  for (auto& one : all) {
    one.extra_warm_up.assign(static_cast<size_t>(ranks), 0);
  }
  for (int r = 0; r + 1 < ranks; ++r) {
    all[1].extra_warm_up[static_cast<size_t>(r)] = 1;
    all[2].extra_warm_up[static_cast<size_t>(r)] = ranks - 1 - r;
  }
  return all;
}

}  // namespace

Result<AutoSchedule> schedule_auto(const ScheduleRequest& request) {
  Best best(request);
  for (const FixedSchedule& fixed : fixed_schedules()) {
    if ((fixed.splits && request.input_gradient.empty()) || !fixed.check(request).ok()) {
      continue;
    }
    best.add(fixed.make(request), fixed.name);
    if (fixed.make == schedule_one_f_one_b) {
      for (const ScheduleRequest& other : other_warm_ups(request)) {
        best.add(fixed.make(other), fixed.name);
      }
    }
  }
  const bool one_head_pass = request.head_passes == 1 && request.micro_batches > 1;  // only GPipe has this
  for (const GreedyRules& rules : greedy_rules(request)) {
    if (auto made = greedy_schedule(request, rules); made && !one_head_pass) {
      best.add(insert_head_passes(*std::move(made), request), "greedy");
    }
  }
  return std::move(best).result();
}

}  // namespace xrun::planner
