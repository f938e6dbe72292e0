#include "planner/schedules/schedule.h"

#include <algorithm>

namespace xrun::planner {
namespace {

Error broken(int stage, const std::string& what) {
  return {ErrorKind::kContent, "XG0002", "schedule: stage " + std::to_string(stage) + ": " + what, ""};
}

// The position of each action in the list of a stage, by kind and index; -1 if the list does not have the action.
struct Places {
  std::vector<int> forward, backward, head;
};

Result<Places> find_places(const Schedule& schedule, int stage) {
  const auto& order = schedule.orders[static_cast<size_t>(stage)];
  Places places;
  places.forward.assign(static_cast<size_t>(schedule.micro_batches), -1);
  places.backward.assign(static_cast<size_t>(schedule.training ? schedule.micro_batches : 0), -1);
  places.head.assign(static_cast<size_t>(schedule.head_passes), -1);
  for (size_t i = 0; i < order.size(); ++i) {
    auto& list = order[i].kind == ActionKind::kForward    ? places.forward
                 : order[i].kind == ActionKind::kBackward ? places.backward
                                                          : places.head;
    const int index = order[i].index;
    if (index < 0 || index >= static_cast<int>(list.size())) {
      return broken(stage, to_text(order[i]) + " is not a pass of this step");
    }
    if (list[static_cast<size_t>(index)] >= 0) {
      return broken(stage, to_text(order[i]) + " comes twice");
    }
    list[static_cast<size_t>(index)] = static_cast<int>(i);
  }
  for (const auto* list : {&places.forward, &places.backward, &places.head}) {
    const auto missing = std::find(list->begin(), list->end(), -1);
    if (missing != list->end()) {
      const ActionKind kind = list == &places.forward    ? ActionKind::kForward
                              : list == &places.backward ? ActionKind::kBackward
                                                         : ActionKind::kHead;
      return broken(stage, to_text(Action{kind, static_cast<int>(missing - list->begin())}) + " is missing");
    }
    if (!std::is_sorted(list->begin(), list->end())) {
      return broken(stage, "passes of one kind are not in ascending order");
    }
  }
  return places;
}

// Micro-batch j belongs to head pass j, or to pass 0 if there is only one pass.
int pass_of(const Schedule& schedule, int micro_batch) { return schedule.head_passes == 1 ? 0 : micro_batch; }

// Checks that the schedule does not deadlock: goes through the lists in order, taking each action when the actions on
// which it depends are done. The error names the stages that cannot continue.
Status check_progress(const Schedule& schedule) {
  const auto stages = schedule.orders.size();
  std::vector<size_t> next(stages, 0);
  std::vector<int> forward(stages, 0);  // passes done, ascending
  std::vector<int> backward(stages, 0);
  int heads = 0;
  for (bool moved = true; moved;) {
    moved = false;
    // A head pass runs when it is next on every stage.
    const bool heads_next = std::all_of(next.begin(), next.end(), [&, s = size_t{0}](size_t at) mutable {
      const auto& order = schedule.orders[s++];
      return at < order.size() && order[at] == Action{ActionKind::kHead, heads};
    });
    if (heads_next) {
      std::for_each(next.begin(), next.end(), [](size_t& at) { ++at; });
      ++heads;
      moved = true;
    }
    for (size_t s = 0; s < stages; ++s) {
      const auto& order = schedule.orders[s];
      if (next[s] >= order.size()) {
        continue;
      }
      const Action action = order[next[s]];
      bool ready = false;
      if (action.kind == ActionKind::kForward) {
        ready = s == 0 || forward[s - 1] > action.index;
        forward[s] += ready ? 1 : 0;
      } else if (action.kind == ActionKind::kBackward) {
        ready = forward[s] > action.index &&
                (s + 1 < stages ? backward[s + 1] > action.index
                                : schedule.head_passes == 0 || heads > pass_of(schedule, action.index));
        backward[s] += ready ? 1 : 0;
      }
      next[s] += ready ? 1 : 0;
      moved = moved || ready;
    }
  }
  for (size_t s = 0; s < stages; ++s) {
    if (next[s] < schedule.orders[s].size()) {
      return broken(static_cast<int>(s), "waits for ever before " + to_text(schedule.orders[s][next[s]]));
    }
  }
  return {};
}

}  // namespace

Schedule make_schedule(PipelineKind kind, const ScheduleRequest& request) {
  return kind == PipelineKind::kGpipe ? schedule_gpipe(request) : schedule_one_f_one_b(request);
}

Schedule schedule_inference(const ScheduleRequest& request) {
  Schedule schedule{.micro_batches = request.micro_batches, .head_passes = request.head_passes, .training = false};
  for (size_t s = 0; s < request.forward.size(); ++s) {
    auto& order = schedule.orders.emplace_back();
    for (int i = 0; i < request.micro_batches; ++i) {
      order.push_back({ActionKind::kForward, i});
    }
    for (int i = 0; i < request.head_passes; ++i) {
      order.push_back({ActionKind::kHead, i});
    }
  }
  return schedule;
}

Status check_schedule(const Schedule& schedule) {
  const auto stages = schedule.orders.size();
  if (stages == 0 || schedule.micro_batches < 1) {
    return broken(0, "no stage or no micro-batch");
  }
  if (schedule.head_passes > 1 && schedule.head_passes != schedule.micro_batches) {
    return broken(0, "head passes are neither one a step nor one a micro-batch");
  }
  for (size_t s = 0; s < stages; ++s) {
    XRUN_ASSIGN(const Places places, find_places(schedule, static_cast<int>(s)));
    for (size_t i = 0; i < places.backward.size(); ++i) {
      const int pass = pass_of(schedule, static_cast<int>(i));
      if (places.backward[i] < places.forward[i]) {
        return broken(static_cast<int>(s), "B" + std::to_string(i) + " comes before F" + std::to_string(i));
      }
      if (schedule.head_passes > 0 && s + 1 == stages &&
          (places.head[static_cast<size_t>(pass)] < places.forward[i] ||
           places.head[static_cast<size_t>(pass)] > places.backward[i])) {
        return broken(static_cast<int>(s), "H" + std::to_string(pass) + " is not between F" + std::to_string(i) +
                                               " and B" + std::to_string(i));
      }
    }
  }
  return check_progress(schedule);
}

std::string to_text(const Action& action) {
  const char* kind = action.kind == ActionKind::kForward ? "F" : action.kind == ActionKind::kBackward ? "B" : "H";
  return kind + std::to_string(action.index);
}

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (size_t s = 0; s < schedule.orders.size(); ++s) {
    text += "stage " + std::to_string(s) + ":";
    for (const Action& action : schedule.orders[s]) {
      text += " " + to_text(action);
    }
    text += "\n";
  }
  return text;
}

}  // namespace xrun::planner
