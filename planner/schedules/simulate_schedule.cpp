// Runs the action lists of a schedule: an action starts when its stage is free and its inputs have arrived, so the
// stages take turns with one action each until every list has ended.
// Tests: tests/planner/schedules/schedule_test.cpp
#include "planner/schedules/simulate_schedule.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

// The state of a simulation of the action lists: the next action of each stage, and when the earlier ones ended.
class Run {
 public:
  Run(const Schedule& schedule, const ScheduleRequest& request) : schedule_(schedule), request_(request) {
    const size_t stages = schedule.orders.size();
    const auto count = static_cast<size_t>(schedule.micro_batches);
    next_.assign(stages, 0);
    clock_.assign(stages, 0);
    posted_.assign(stages, 0);
    forward_.assign(stages, std::vector<Seconds>(count, -1));
    backward_ = forward_;
    std::ranges::fill(forward_.front(), 0);
    if (schedule.head_passes == 0) {
      std::ranges::fill(backward_.back(), 0);
    }
    times_.stages.resize(stages);
    for (size_t s = 0; s < stages; ++s) {
      times_.stages[s].reserve(schedule.orders[s].size());
    }
  }

  ScheduleTimes finish() {
    while (step()) {
    }
    for (size_t s = 0; s < next_.size(); ++s) {
      XRUN_CHECK(next_[s] == schedule_.orders[s].size(), "the schedule was checked and is stuck all the same");
    }
    summarise();
    return std::move(times_);
  }

 private:
  bool step() {
    bool moved = false;
    for (size_t s = 0; s < next_.size(); ++s) {
      moved = (next_[s] < schedule_.orders[s].size() && advance(s)) || moved;
    }
    return head_pass() || moved;
  }

  // Returns when a value arrives that `from` has made at `end`. `later` is the later one of both stages.
  Seconds arrival(size_t from, size_t to, Seconds end, size_t later) {
    if (request_.hops.empty()) {
      return end + request_.hop;
    }
    posted_[from] = std::max(posted_[from], end);
    return std::max(posted_[from], posted_[to]) + request_.hops[later];
  }

  bool has_shards(size_t s) const { return request_.shards.empty() || request_.shards[s]; }

  bool head_pass() {
    const Action action{ActionKind::kHead, static_cast<int>(times_.heads.size())};
    Seconds start = times_.heads.empty() ? 0 : times_.heads.back().end;
    for (size_t s = 0; s < next_.size(); ++s) {
      if (has_shards(s) || s + 1 == next_.size()) {
        if (next_[s] >= schedule_.orders[s].size() || schedule_.orders[s][next_[s]] != action) {
          return false;
        }
        start = std::max(start, clock_[s]);
      }
    }
    const Seconds end = start + request_.head;
    times_.heads.push_back({action, start, end});
    for (size_t s = 0; s < next_.size(); ++s) {
      if (has_shards(s)) {
        record(s, start, end);
      }
    }
    next_.back() += has_shards(next_.size() - 1) ? 0 : 1;
    for (size_t i = 0; i < backward_.back().size(); ++i) {
      if (schedule_.head_passes == 1 || action.index == static_cast<int>(i)) {
        backward_.back()[i] = end;
      }
    }
    return true;
  }

  bool advance(size_t s) {
    const Action action = schedule_.orders[s][next_[s]];
    const auto i = static_cast<size_t>(action.index);
    if (action.kind == ActionKind::kHead) {
      const bool passes_by = !has_shards(s) && s + 1 < next_.size();
      next_[s] += passes_by ? 1 : 0;
      return passes_by;
    }
    const bool is_forward = action.kind == ActionKind::kForward;
    const Seconds ready = (is_forward ? forward_ : backward_)[s][i];
    if (ready < 0) {
      return false;
    }
    const Seconds start = std::max(clock_[s], ready);
    if (is_forward) {
      const Seconds end = start + request_.forward[s];
      record(s, start, end);
      if (s + 1 < next_.size()) {
        forward_[s + 1][i] = arrival(s, s + 1, end, s + 1);
      }
      return true;
    }
    const bool adds = action.index == 0 && !request_.first.empty();
    const Seconds end = start + request_.backward[s] + (adds ? request_.first[s] : 0);
    record(s, start, end);
    if (s > 0) {
      backward_[s - 1][i] = arrival(s, s - 1, end, s);
    }
    return true;
  }

  void record(size_t s, Seconds start, Seconds end) {
    times_.stages[s].push_back({schedule_.orders[s][next_[s]], start, end});
    clock_[s] = end;
    ++next_[s];
  }

  void summarise() {
    Seconds most = 0;
    Seconds sum = 0;
    for (const auto& stage : times_.stages) {
      Seconds busy = 0;
      for (const ActionTime& time : stage) {
        busy += time.end - time.start;
        times_.makespan = std::max(times_.makespan, time.end);
      }
      most = std::max(most, busy);
      sum += busy;
    }
    const auto stages = static_cast<double>(times_.stages.size());
    if (times_.makespan > 0) {
      times_.imbalance = (stages * most - sum) / (stages * times_.makespan);
      times_.bubble = 1 - most / times_.makespan;
    }
  }

  const Schedule& schedule_;
  const ScheduleRequest& request_;
  std::vector<size_t> next_;
  std::vector<Seconds> clock_;
  std::vector<Seconds> posted_;                // when the last transfer of a stage could begin on its side
  std::vector<std::vector<Seconds>> forward_;  // when the input of F(stage, i) has arrived; negative until it is known
  std::vector<std::vector<Seconds>> backward_;
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request) {
  return Run(schedule, request).finish();
}

}  // namespace xrun::planner
