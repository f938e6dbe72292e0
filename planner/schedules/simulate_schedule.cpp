// Runs the action lists of a schedule: an action starts when its rank is free and its inputs have arrived, so the
// ranks take turns with one action each until every list has ended.
// Tests: tests/planner/schedules/schedule_test.cpp
#include "planner/schedules/simulate_schedule.h"

#include <algorithm>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

// The state of a simulation of the action lists: the next action of each rank, and when the earlier ones ended.
class Run {
 public:
  Run(const Schedule& schedule, const ScheduleRequest& request)
      : schedule_(schedule), request_(request), last_(static_cast<size_t>(schedule.rank_of_stage.back())) {
    const size_t ranks = schedule.orders.size();
    const auto count = static_cast<size_t>(schedule.micro_batches);
    next_.assign(ranks, 0);
    clock_.assign(ranks, 0);
    posted_.assign(ranks, 0);
    forward_.assign(schedule.rank_of_stage.size(), std::vector<Seconds>(count, -1));
    backward_ = forward_;
    std::ranges::fill(forward_.front(), 0);
    if (schedule.head_passes == 0) {
      std::ranges::fill(backward_.back(), 0);
    }
    times_.ranks.resize(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      times_.ranks[r].reserve(schedule.orders[r].size());
    }
  }

  ScheduleTimes finish() {
    while (step()) {
    }
    for (size_t r = 0; r < next_.size(); ++r) {
      XRUN_CHECK(next_[r] == schedule_.orders[r].size(), "the schedule was checked and is stuck all the same");
    }
    summarise();
    return std::move(times_);
  }

 private:
  bool step() {
    bool moved = false;
    for (size_t r = 0; r < next_.size(); ++r) {
      moved = (next_[r] < schedule_.orders[r].size() && advance(r)) || moved;
    }
    return head_pass() || moved;
  }

  // Returns when a value arrives at stage `to` that stage `from`, a neighbour, has made at `end`.
  Seconds arrival(size_t from, size_t to, Seconds end) {
    const auto sender = static_cast<size_t>(schedule_.rank_of_stage[from]);
    const auto receiver = static_cast<size_t>(schedule_.rank_of_stage[to]);
    if (sender == receiver) {
      return end;
    }
    if (request_.hops.empty()) {
      return end + request_.hop;
    }
    posted_[sender] = std::max(posted_[sender], end);
    return std::max(posted_[sender], posted_[receiver]) + request_.hops[std::max(from, to)];
  }

  bool has_shards(size_t r) const { return request_.shards.empty() || request_.shards[r]; }

  bool head_pass() {
    const Action action{ActionKind::kHead, static_cast<int>(times_.heads.size())};
    Seconds start = times_.heads.empty() ? 0 : times_.heads.back().end;
    for (size_t r = 0; r < next_.size(); ++r) {
      if (has_shards(r) || r == last_) {
        if (next_[r] >= schedule_.orders[r].size() || schedule_.orders[r][next_[r]] != action) {
          return false;
        }
        start = std::max(start, clock_[r]);
      }
    }
    const Seconds end = start + request_.head;
    times_.heads.push_back({action, start, end});
    for (size_t r = 0; r < next_.size(); ++r) {
      if (has_shards(r)) {
        record(r, start, end);
      }
    }
    next_[last_] += has_shards(last_) ? 0 : 1;
    for (size_t i = 0; i < backward_.back().size(); ++i) {
      if (schedule_.head_passes == 1 || action.index == static_cast<int>(i)) {
        backward_.back()[i] = end;
      }
    }
    return true;
  }

  // Returns the time of a pass of a stage.
  Seconds time_of(const Action& action) const {
    const auto& times = action.kind == ActionKind::kForward         ? request_.forward
                        : action.kind == ActionKind::kBackward      ? request_.backward
                        : action.kind == ActionKind::kInputGradient ? request_.input_gradient
                                                                    : request_.weight_gradient;
    return times[static_cast<size_t>(action.stage)];
  }

  // Returns the time that the first pass with gradients of weights takes longer.
  Seconds more_of_first(const Action& action) const {
    const bool adds = action.index == 0 && !request_.first.empty() &&
                      (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient);
    return adds ? request_.first[static_cast<size_t>(action.stage)] : 0;
  }

  bool advance(size_t r) {
    const Action action = schedule_.orders[r][next_[r]];
    if (action.kind == ActionKind::kHead) {
      const bool passes_by = !has_shards(r) && r != last_;
      next_[r] += passes_by ? 1 : 0;
      return passes_by;
    }
    const auto s = static_cast<size_t>(action.stage);
    const auto i = static_cast<size_t>(action.index);
    const bool is_forward = action.kind == ActionKind::kForward;
    // A weight gradient follows the input gradient of its micro-batch on the same rank.
    const bool is_weight = action.kind == ActionKind::kWeightGradient;
    const Seconds ready = is_weight ? 0 : (is_forward ? forward_ : backward_)[s][i];
    if (ready < 0) {
      return false;
    }
    const Seconds start = std::max(clock_[r], ready);
    const Seconds end = start + time_of(action) + more_of_first(action);
    record(r, start, end);
    if (is_forward && s + 1 < forward_.size()) {
      forward_[s + 1][i] = arrival(s, s + 1, end);
    } else if (!is_forward && !is_weight && s > 0) {
      backward_[s - 1][i] = arrival(s, s - 1, end);
    }
    return true;
  }

  void record(size_t r, Seconds start, Seconds end) {
    times_.ranks[r].push_back({schedule_.orders[r][next_[r]], start, end});
    clock_[r] = end;
    ++next_[r];
  }

  void summarise() {
    Seconds most = 0;
    Seconds sum = 0;
    for (const auto& rank : times_.ranks) {
      Seconds busy = 0;
      for (const ActionTime& time : rank) {
        busy += time.end - time.start;
        times_.makespan = std::max(times_.makespan, time.end);
      }
      most = std::max(most, busy);
      sum += busy;
    }
    const auto ranks = static_cast<double>(times_.ranks.size());
    if (times_.makespan > 0) {
      times_.imbalance = (ranks * most - sum) / (ranks * times_.makespan);
      times_.bubble = 1 - most / times_.makespan;
    }
  }

  const Schedule& schedule_;
  const ScheduleRequest& request_;
  const size_t last_;         // the rank of the last stage
  std::vector<size_t> next_;  // index: rank
  std::vector<Seconds> clock_;
  std::vector<Seconds> posted_;                // when the last transfer of a rank could begin on its side
  std::vector<std::vector<Seconds>> forward_;  // when the input of F(stage, i) has arrived; negative until it is known
  std::vector<std::vector<Seconds>> backward_;
  ScheduleTimes times_;
};

}  // namespace

ScheduleTimes simulate(const Schedule& schedule, const ScheduleRequest& request) {
  return Run(schedule, request).finish();
}

}  // namespace xrun::planner
