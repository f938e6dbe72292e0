#include "planner/schedules/schedule.h"

#include <algorithm>

#include "graph/base/check.h"
#include "planner/schedules/auto_schedule.h"
#include "planner/schedules/fixed_schedules.h"
#include "planner/schedules/phased.h"

namespace xrun::planner {

Schedule empty_schedule(const ScheduleRequest& request) {
  Schedule schedule{.micro_batches = request.micro_batches, .rank_of_stage = request.rank_of_stage};
  for (size_t s = 0; s < request.forward.size() && request.rank_of_stage.empty(); ++s) {
    schedule.rank_of_stage.push_back(static_cast<int>(s));
  }
  schedule.orders.resize(static_cast<size_t>(std::ranges::max(schedule.rank_of_stage)) + 1);
  return schedule;
}

Schedule make_schedule(PipelineKind kind, const ScheduleRequest& request) {
  if (kind > PipelineKind::kOneFOneB && request.head_passes == 1) {
    return schedule_phased(request);
  }
  switch (kind) {
    case PipelineKind::kGpipe:
      break;
    case PipelineKind::kOneFOneB:
      return schedule_one_f_one_b(request);
    case PipelineKind::kInterleaved:
      return schedule_interleaved(request);
    case PipelineKind::kZbV:
      return schedule_zb_v(request);
    case PipelineKind::kZeroBubble:
      auto found = schedule_auto(request);
      XRUN_CHECK(found.ok(), "the memory of a request is at least that of 1F1B");
      return std::move(found->schedule);
  }
  return schedule_gpipe(request);
}

Schedule schedule_inference(const ScheduleRequest& request) {
  Schedule schedule = empty_schedule(request);
  schedule.head_passes = request.head_passes;
  schedule.training = false;
  for (int s = 0; s < schedule.stages(); ++s) {
    auto& order = schedule.orders[static_cast<size_t>(schedule.rank_of_stage[static_cast<size_t>(s)])];
    for (int i = 0; i < request.micro_batches; ++i) {
      order.push_back({ActionKind::kForward, i, s});
    }
  }
  for (auto& order : schedule.orders) {
    for (int i = 0; i < request.head_passes; ++i) {
      order.push_back({ActionKind::kHead, i});
    }
  }
  return schedule;
}

std::string to_text(const Action& action, bool with_stage) {
  const char kind = "FBIWH"[static_cast<size_t>(action.kind)];
  std::string text = kind + std::to_string(action.index);
  if (with_stage && action.kind != ActionKind::kHead) {
    text += "." + std::to_string(action.stage);
  }
  return text;
}

std::string to_text(const Schedule& schedule) {
  std::string text;
  for (size_t r = 0; r < schedule.orders.size(); ++r) {
    text += "rank " + std::to_string(r) + ":";
    for (const Action& action : schedule.orders[r]) {
      text += " " + to_text(action, schedule.has_chunks());
    }
    text += "\n";
  }
  return text;
}

}  // namespace xrun::planner
