// Schedules with one head pass for the step: all forward passes, the head pass, then all backward passes, in which
// gradients of weights run while a rank would wait. Both halves are made by a simulation: of all passes that could
// begin, the earliest runs next. Ranks thereby wait only while the first and the last micro-batch pass the other ranks,
// which is shorter with several stages on a rank.
// Tests: tests/planner/schedules/phased_test.cpp
#include "planner/schedules/phased.h"

#include <algorithm>

namespace xrun::planner {
namespace {

class Phases {
 public:
  explicit Phases(const ScheduleRequest& request)
      : request_(request), schedule_(empty_schedule(request)), splits_(!request.input_gradient.empty()) {
    const std::vector<Seconds> unknown(static_cast<size_t>(request.micro_batches), -1);
    ends_.assign(static_cast<size_t>(schedule_.stages()), unknown);
    next_.assign(static_cast<size_t>(schedule_.stages()), 0);
    next_weights_ = next_;
  }

  Schedule run() {
    run_phase(false);
    for (int pass = 0; pass < request_.head_passes; ++pass) {
      for (auto& order : schedule_.orders) {
        order.push_back({ActionKind::kHead, pass});
      }
    }
    schedule_.head_passes = request_.head_passes;
    for (auto& of_stage : ends_) {
      std::ranges::fill(of_stage, -1);
    }
    std::ranges::fill(next_, 0);
    run_phase(true);
    return std::move(schedule_);
  }

 private:
  struct Choice {
    Action action;
    Seconds start = 0;
    Seconds time = 0;
  };

  // Runs the forward or the backward passes of all ranks, which begin at the same time.
  void run_phase(bool backward) {
    clock_.assign(schedule_.orders.size(), 0);
    for (bool more = true; more;) {
      more = false;
      Choice best;
      size_t rank = 0;
      for (size_t r = 0; r < clock_.size(); ++r) {
        Choice own;
        if (choose(static_cast<int>(r), backward, own) && (!more || own.start < best.start)) {
          best = own;
          rank = r;
          more = true;
        }
      }
      if (more) {
        take(rank, best);
      }
    }
  }

  // Chooses the next pass of a rank; false if none is left, or none can begin before another rank has run one. Of
  // passes that could begin together, the one of the stage that the first micro-batch reaches first is chosen.
  bool choose(int rank, bool backward, Choice& best) const {
    const Seconds now = clock_[static_cast<size_t>(rank)];
    bool found = false;
    for (int k = 0; k < schedule_.stages(); ++k) {
      const int stage = backward ? schedule_.stages() - 1 - k : k;
      const auto s = static_cast<size_t>(stage);
      if (schedule_.rank_of_stage[s] != rank || next_[s] == request_.micro_batches) {
        continue;
      }
      const Seconds ready = arrival(stage, next_[s], backward);
      const Seconds start = std::max(now, ready);
      if (ready >= 0 && (!found || start < best.start)) {
        best = {{!backward ? ActionKind::kForward
                 : splits_ ? ActionKind::kInputGradient
                           : ActionKind::kBackward,
                 next_[s], stage},
                start,
                (!backward ? request_.forward
                 : splits_ ? request_.input_gradient
                           : request_.backward)[s]};
        found = true;
      }
    }
    for (int stage = schedule_.stages() - 1; backward && splits_ && stage >= 0; --stage) {
      const auto s = static_cast<size_t>(stage);
      if (schedule_.rank_of_stage[s] != rank || next_weights_[s] == next_[s]) {
        continue;
      }
      // A gradient of weights runs if the rank would otherwise wait for at least half of its time.
      const Seconds time = request_.weight_gradient[s];
      if (!found || best.start - now > time / 2) {
        best = {{ActionKind::kWeightGradient, next_weights_[s], stage}, now, time};
        return true;
      }
    }
    return found;
  }

  // Returns when the input of a pass has arrived; negative if it is not known yet.
  Seconds arrival(int stage, int index, bool backward) const {
    const int from = backward ? stage + 1 : stage - 1;
    if (from < 0 || from == schedule_.stages()) {
      return 0;
    }
    const Seconds end = ends_[static_cast<size_t>(from)][static_cast<size_t>(index)];
    const auto boundary = static_cast<size_t>(std::max(from, stage));
    const bool is_same =
        schedule_.rank_of_stage[static_cast<size_t>(from)] == schedule_.rank_of_stage[static_cast<size_t>(stage)];
    return end < 0 || is_same ? end : end + (request_.hops.empty() ? request_.hop : request_.hops[boundary]);
  }

  void take(size_t rank, const Choice& choice) {
    const auto s = static_cast<size_t>(choice.action.stage);
    clock_[rank] = choice.start + choice.time;
    schedule_.orders[rank].push_back(choice.action);
    if (choice.action.kind == ActionKind::kWeightGradient) {
      ++next_weights_[s];
      return;
    }
    ends_[s][static_cast<size_t>(choice.action.index)] = clock_[rank];
    ++next_[s];
  }

  const ScheduleRequest& request_;
  Schedule schedule_;
  bool splits_;
  std::vector<Seconds> clock_;              // index: rank; the end of its last pass
  std::vector<std::vector<Seconds>> ends_;  // index: stage, micro-batch; the end of the pass of this phase
  std::vector<int> next_;                   // index: stage; the micro-batch of its next pass
  std::vector<int> next_weights_;
};

}  // namespace

Schedule schedule_phased(const ScheduleRequest& request) { return Phases(request).run(); }

}  // namespace xrun::planner
