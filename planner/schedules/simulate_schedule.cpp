// Runs the action lists of a schedule: an action starts when its stage is free and its inputs have arrived, so the
// stages are visited repeatedly until every list has ended.
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
    forward_.assign(stages, std::vector<Seconds>(count, -1));
    backward_ = forward_;
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
    bool moved = head_pass();
    for (size_t s = 0; s < next_.size(); ++s) {
      while (next_[s] < schedule_.orders[s].size() && advance(s)) {
        moved = true;
      }
    }
    return moved;
  }

  // A head pass starts when every stage has reached it.
  bool head_pass() {
    Seconds start = 0;
    for (size_t s = 0; s < next_.size(); ++s) {
      if (next_[s] >= schedule_.orders[s].size() || schedule_.orders[s][next_[s]].kind != ActionKind::kHead) {
        return false;
      }
      start = std::max(start, clock_[s]);
    }
    for (size_t s = 0; s < next_.size(); ++s) {
      record(s, start, start + request_.head);
    }
    return true;
  }

  bool advance(size_t s) {
    const Action action = schedule_.orders[s][next_[s]];
    const auto i = static_cast<size_t>(action.index);
    Seconds ready = 0;
    if (action.kind == ActionKind::kHead) {
      return false;
    }
    if (action.kind == ActionKind::kForward) {
      if (s > 0) {
        if (forward_[s - 1][i] < 0) {
          return false;
        }
        ready = forward_[s - 1][i] + request_.hop;
      }
      const Seconds start = std::max(clock_[s], ready);
      forward_[s][i] = start + request_.forward[s];
      record(s, start, forward_[s][i]);
      return true;
    }
    if (s + 1 < next_.size()) {
      if (backward_[s + 1][i] < 0) {
        return false;
      }
      ready = backward_[s + 1][i] + request_.hop;
    }
    const Seconds start = std::max(clock_[s], ready);
    backward_[s][i] = start + request_.backward[s];
    record(s, start, backward_[s][i]);
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
  std::vector<std::vector<Seconds>> forward_;  // end of F(stage, i); -1 until it has ended
  std::vector<std::vector<Seconds>> backward_;
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request) {
  return Run(schedule, request).finish();
}

}  // namespace xrun::planner
