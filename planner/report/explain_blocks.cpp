// Proposes a smaller row block with which more devices would have work (declared in planner/report/explain.h).
#include <algorithm>

#include "planner/report/explain.h"

namespace xrun::planner {

Result<std::optional<SmallerBlock>> propose_row_block(const Plan& plan, const FitInput& input,
                                                      const FactsOf& facts_of) {
  const Module& module = input.search.module;
  const TrainSpec& train = module.train;
  const ScheduleSpec& schedule = module.schedule;
  const int64_t devices = plan.machine.devices;
  const int64_t blocks = train.batch / train.norm_rows;
  if (blocks >= devices || schedule.replicas || schedule.micro_batches || schedule.stages) {
    return std::optional<SmallerBlock>();
  }
  const bool coupled = has_coupled_rows(module.graph);
  const std::vector<int64_t> smaller = smaller_row_blocks(train, coupled);
  // Proposes the largest row block with which all devices have equal numbers of blocks or, if there is none, the
  // largest one with at least one block for each device.
  auto found = std::ranges::find_if(smaller, [&](int64_t rows) { return train.batch / rows % devices == 0; });
  if (found == smaller.end()) {
    found = std::ranges::find_if(smaller, [&](int64_t rows) { return train.batch / rows >= devices; });
  }
  if (found == smaller.end()) {
    return std::optional<SmallerBlock>();
  }
  XRUN_ASSIGN(const auto other, OtherRows::make(input, facts_of, *found));
  const auto choice = other->choose_plan(train.batch, memory_limits(module, plan.machine), {.wanted = 2});
  if (!choice.ok() || choice->fitted.empty()) {
    return std::optional<SmallerBlock>();
  }
  const Fitted& best = choice->fitted[0];
  const double ratio = best.predicted.step / plan.predicted.step - 1;
  if (ratio > -0.01) {
    return std::optional<SmallerBlock>();
  }
  const Setting& setting = best.candidate.setting;
  // With several stages, all devices may be in use although there are few row blocks.
  const auto in_use = static_cast<int64_t>(plan.training.stages.size()) * plan.training.replicas;
  return std::optional(SmallerBlock{.batch = train.batch,
                                    .blocks = blocks,
                                    .norm_rows = *found,
                                    .devices = plan.machine.devices,
                                    .used = setting.ranks() * setting.replicas,
                                    .idle = in_use != devices,
                                    .faster = -ratio,
                                    .coupled = coupled});
}

}  // namespace xrun::planner
