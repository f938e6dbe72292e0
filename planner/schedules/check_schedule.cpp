// Two checks: the list of each rank has the right passes in the right order, and the lists together do not deadlock.
#include <algorithm>
#include <array>

#include "planner/schedules/schedule.h"

namespace xrun::planner {
namespace {

constexpr size_t kKinds = 5;

Error broken(const std::string& what) { return {ErrorKind::kContent, "XG0002", "schedule: " + what, ""}; }

// Micro-batch j belongs to head pass j, or to pass 0 if there is only one pass.
int pass_of(const Schedule& schedule, int micro_batch) { return schedule.head_passes == 1 ? 0 : micro_batch; }

Status check_ranks(const Schedule& schedule) {
  std::vector<bool> has_stage(schedule.orders.size(), false);
  for (size_t s = 0; s < schedule.rank_of_stage.size(); ++s) {
    const int rank = schedule.rank_of_stage[s];
    if (rank < 0 || rank >= schedule.ranks()) {
      return broken("stage " + std::to_string(s) + " is on rank " + std::to_string(rank) + " of " +
                    std::to_string(schedule.ranks()));
    }
    has_stage[static_cast<size_t>(rank)] = true;
  }
  const auto empty = std::ranges::find(has_stage, false);
  if (empty != has_stage.end()) {
    return broken("rank " + std::to_string(empty - has_stage.begin()) + " has no stage");
  }
  return {};
}

// Checks the passes of one rank: all passes of its stages, and all head passes.
class RankCheck {
 public:
  RankCheck(const Schedule& schedule, int rank)
      : schedule_(schedule), rank_(rank), order_(schedule.orders[static_cast<size_t>(rank)]) {
    const std::vector<int> none(static_cast<size_t>(schedule.micro_batches), -1);
    places_.assign(static_cast<size_t>(schedule.stages()), {none, none, none, none, {}});
    for (auto& of_stage : places_) {
      of_stage.back().assign(static_cast<size_t>(schedule.head_passes), -1);
    }
  }

  Status run() {
    XRUN_TRY(find_places());
    for (int i = 0; i < schedule_.head_passes; ++i) {
      XRUN_TRY(check_place({ActionKind::kHead, i}, place(ActionKind::kHead, i - 1, 0)));
    }
    for (int s = 0; s < schedule_.stages(); ++s) {
      if (schedule_.rank_of_stage[static_cast<size_t>(s)] == rank_) {
        XRUN_TRY(check_stage(s));
      }
    }
    return {};
  }

 private:
  Error fault(const std::string& what) const { return broken("rank " + std::to_string(rank_) + ": " + what); }
  std::string text(const Action& action) const { return to_text(action, schedule_.has_chunks()); }

  // The position of an action in the list; -1 if the list does not have it.
  int place(ActionKind kind, int index, int stage) const {
    return index < 0 ? -1 : places_[static_cast<size_t>(stage)][static_cast<size_t>(kind)][static_cast<size_t>(index)];
  }
  int place(const Action& action) const { return place(action.kind, action.index, action.stage); }

  Status find_places() {
    for (size_t at = 0; at < order_.size(); ++at) {
      const Action& action = order_[at];
      const bool is_head = action.kind == ActionKind::kHead;
      const auto s = static_cast<size_t>(action.stage);
      if (action.stage < 0 || action.stage >= schedule_.stages() ||
          (is_head ? action.stage != 0 : schedule_.rank_of_stage[s] != rank_)) {
        return fault(to_text(action, true) + " belongs to a stage of another rank");
      }
      auto& list = places_[s][static_cast<size_t>(action.kind)];
      if (action.index < 0 || action.index >= static_cast<int>(list.size()) ||
          (!schedule_.training && !is_head && action.kind != ActionKind::kForward)) {
        return fault(text(action) + " is not a pass of this step");
      }
      int& at_list = list[static_cast<size_t>(action.index)];
      if (at_list >= 0) {
        return fault(text(action) + " comes twice");
      }
      at_list = static_cast<int>(at);
    }
    return {};
  }

  // Checks that the list has `action`, and has it after the position `before`.
  Status check_place(const Action& action, int before) const {
    if (place(action) < 0) {
      return fault(text(action) + " is missing");
    }
    if (place(action) < before) {
      return fault(text(action) + " comes before " + text(order_[static_cast<size_t>(before)]));
    }
    return {};
  }

  Status check_stage(int s) const {
    int forward = -1;  // the last pass that was checked, of each sequence that must be ascending
    int input = -1;
    int weight = -1;
    for (int i = 0; i < schedule_.micro_batches; ++i) {
      XRUN_TRY(check_place({ActionKind::kForward, i, s}, forward));
      forward = place(ActionKind::kForward, i, s);
      if (!schedule_.training) {
        continue;
      }
      const bool is_split = place(ActionKind::kInputGradient, i, s) >= 0;
      const Action makes_input{is_split ? ActionKind::kInputGradient : ActionKind::kBackward, i, s};
      const Action makes_weight{is_split ? ActionKind::kWeightGradient : ActionKind::kBackward, i, s};
      if (is_split && place(ActionKind::kBackward, i, s) >= 0) {
        return fault(text({ActionKind::kBackward, i, s}) + " and " + text(makes_input) + " are the same pass");
      }
      XRUN_TRY(check_place(makes_input, std::max(input, forward)));
      input = place(makes_input);
      XRUN_TRY(check_place(makes_weight, std::max(weight, input)));
      weight = place(makes_weight);
      if (!is_split && place(ActionKind::kWeightGradient, i, s) >= 0) {
        return fault(text({ActionKind::kWeightGradient, i, s}) + " comes without " +
                     text({ActionKind::kInputGradient, i, s}));
      }
      if (schedule_.head_passes > 0 && s + 1 == schedule_.stages()) {
        const Action head{ActionKind::kHead, pass_of(schedule_, i)};
        if (place(head) < forward || place(head) > input) {
          return fault(text(head) + " is not between " + text({ActionKind::kForward, i, s}) + " and " +
                       text(makes_input));
        }
      }
    }
    return {};
  }

  const Schedule& schedule_;
  int rank_;
  const std::vector<Action>& order_;
  std::vector<std::array<std::vector<int>, kKinds>> places_;  // [stage][kind][index]; stage 0 has the head passes
};

// Goes through the lists in order, taking each action when the actions on which it depends are done. Passes of a stage
// that make values for other stages run in ascending order, so their number says which ones are done.
class Progress {
 public:
  explicit Progress(const Schedule& schedule) : schedule_(schedule) {
    next_.assign(schedule.orders.size(), 0);
    forward_.assign(static_cast<size_t>(schedule.stages()), 0);
    input_ = forward_;
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = take_head_pass();
      for (size_t r = 0; r < next_.size(); ++r) {
        if (next_[r] < schedule_.orders[r].size() && take(schedule_.orders[r][next_[r]])) {
          ++next_[r];
          moved = true;
        }
      }
    }
    std::string waits;
    for (size_t r = 0; r < next_.size(); ++r) {
      if (next_[r] < schedule_.orders[r].size()) {
        waits += (waits.empty() ? "rank " : ", rank ") + std::to_string(r) +
                 (waits.empty() ? " waits for ever before " : " before ") +
                 to_text(schedule_.orders[r][next_[r]], schedule_.has_chunks());
      }
    }
    return waits.empty() ? Status() : broken(waits);
  }

 private:
  // A head pass runs when it is next on every rank.
  bool take_head_pass() {
    for (size_t r = 0; r < next_.size(); ++r) {
      const auto& order = schedule_.orders[r];
      if (next_[r] >= order.size() || order[next_[r]] != Action{ActionKind::kHead, heads_}) {
        return false;
      }
    }
    std::ranges::for_each(next_, [](size_t& at) { ++at; });
    ++heads_;
    return true;
  }

  bool take(const Action& action) {
    const auto s = static_cast<size_t>(action.stage);
    bool ready = action.kind == ActionKind::kWeightGradient;
    if (action.kind == ActionKind::kForward) {
      ready = s == 0 || forward_[s - 1] > action.index;
      forward_[s] += ready ? 1 : 0;
    } else if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
      // On the rank of the last stage, the head pass comes before this action.
      ready = s + 1 == input_.size() || input_[s + 1] > action.index;
      input_[s] += ready ? 1 : 0;
    }
    return ready;
  }

  const Schedule& schedule_;
  std::vector<size_t> next_;  // index: rank
  std::vector<int> forward_;  // index: stage; passes done
  std::vector<int> input_;
  int heads_ = 0;
};

}  // namespace

Status check_schedule(const Schedule& schedule) {
  if (schedule.orders.empty() || schedule.micro_batches < 1) {
    return broken("no rank or no micro-batch");
  }
  if (schedule.head_passes > 1 && schedule.head_passes != schedule.micro_batches) {
    return broken("head passes are neither one a step nor one a micro-batch");
  }
  XRUN_TRY(check_ranks(schedule));
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    XRUN_TRY(RankCheck(schedule, rank).run());
  }
  return Progress(schedule).run();
}

}  // namespace xrun::planner
