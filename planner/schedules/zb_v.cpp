// ZB-V: rank r of p has the stages a = r and b = 2p - 1 - r, so the micro-batches go down the ranks and up again. The
// first and the last stage are on one rank, and backward passes begin early on all ranks. With equal times and without
// latency a rank is idle only for the time of p - 1 passes of one stage, and all ranks need the memory of the first one
// under 1F1B. A rank runs these passes, each on the next micro-batch of its stage, without those after the last one:
//   - F_a 2(p - r) - 1 times; F_b, F_a r times; F_b, I_b, W_b p - r times;
//   - F_a, I_a, W_a, F_b, I_b, W_b until F_b has caught up with F_a;
//   - I_a, I_b r times; I_a, W_a p - r times; the remaining W_b, then the remaining W_a.
// Source: Qi et al., "Pipeline Parallelism with Controllable Memory", NeurIPS 2024.
// Tests: tests/planner/schedules/fixed_schedules_test.cpp
#include <algorithm>
#include <array>

#include "planner/schedules/fixed_schedules.h"

namespace xrun::planner {
namespace {

class RankOrder {
 public:
  RankOrder(int ranks, int micro_batches, int rank)
      : ranks_(ranks), micro_batches_(micro_batches), rank_(rank), stages_{rank, 2 * ranks - 1 - rank} {}

  std::vector<Action> run() {
    const int count = std::max(micro_batches_, 2 * ranks_ - 1);
    fill();
    while (done(kForward, kUp) < done(kForward, kDown) || done(kForward, kDown) < count) {
      if (done(kForward, kDown) < count) {
        add(kForward, kDown);
      }
      add_backward(kDown);
      add(kForward, kUp);
      add_backward(kUp);
    }
    drain();
    return std::move(order_);
  }

 private:
  using enum ActionKind;
  enum Leg { kDown, kUp };  // the stages a and b

  int& done(ActionKind kind, Leg leg) { return done_[static_cast<size_t>(kind)][leg]; }

  void add(ActionKind kind, Leg leg) {
    const int index = done(kind, leg)++;
    if (index < micro_batches_) {
      order_.push_back({kind, index, stages_[leg]});
    }
  }
  void add_backward(Leg leg) {
    add(kInputGradient, leg);
    add(kWeightGradient, leg);
  }

  void fill() {
    for (int k = 0; k < 2 * (ranks_ - rank_) - 1; ++k) {
      add(kForward, kDown);
    }
    for (int k = 0; k < rank_; ++k) {
      add(kForward, kUp);
      add(kForward, kDown);
    }
    for (int k = rank_; k < ranks_; ++k) {
      add(kForward, kUp);
      add_backward(kUp);
    }
  }

  void drain() {
    for (int k = 0; k < rank_; ++k) {
      add(kInputGradient, kDown);
      add(kInputGradient, kUp);
    }
    for (int k = rank_; k < ranks_; ++k) {
      add_backward(kDown);
    }
    for (const Leg leg : {kUp, kDown}) {
      while (done(kWeightGradient, leg) < done(kInputGradient, leg)) {
        add(kWeightGradient, leg);
      }
    }
  }

  int ranks_;
  int micro_batches_;
  int rank_;
  std::array<int, 2> stages_;
  std::array<std::array<int, 2>, 5> done_{};  // [kind][leg]
  std::vector<Action> order_;
};

}  // namespace

Schedule schedule_zb_v(const ScheduleRequest& request) {
  Schedule plain = empty_schedule(request);
  for (int r = 0; r < plain.ranks(); ++r) {
    plain.orders[static_cast<size_t>(r)] = RankOrder(plain.ranks(), request.micro_batches, r).run();
  }
  return insert_head_passes(std::move(plain), request);
}

}  // namespace xrun::planner
