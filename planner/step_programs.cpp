#include "planner/step_programs.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "graph/base/check.h"
#include "graph/passes/pipeline.h"
#include "planner/cost/cost_model.h"
#include "planner/emit/emit.h"
#include "planner/emit/memory.h"
#include "planner/program/head_plan.h"
#include "planner/search/fit.h"
#include "planner/search/heads.h"
#include "planner/search/search.h"
#include "planner/search/space.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

// Returns the decision for a step with the batch of `module`, which is smaller than the last size. It equals the
// decision from which `largest`, the program of a step of the last size, was made, except for the number of
// micro-batches.
Decision decide_smaller(const Program& largest, const Module& module, const CostModel& cost) {
  const TrainSpec& train = module.train;
  const int64_t rows = largest.micro_batch_rows();
  Setting setting = setting_of(largest);
  setting.micro_batches = static_cast<int>(train.batch / rows);
  Decision decision{
      .deterministic = largest.deterministic,
      .overlap = largest.overlap,
      .pipeline = largest.schedule,
      .warm_up = largest.warm_up,
      .batch = train.batch,
      .norm_rows = train.norm_rows,
      .micro_batches = setting.micro_batches,
      .replicas = largest.replicas,
      .partials = partials_of(setting, largest.deterministic, train.batch / train.norm_rows, cost.machine()),
      .stages = largest.stages,
      .heads = largest.heads};
  for (HeadPlan& head : decision.heads) {
    head.rows = head.rows == largest.batch ? train.batch : head.rows;
    head.row_weight = row_weight_of(module, head.loss);
    head.update_sweep = head.update_sweep && needs_update_sweep(train, head.rows);
  }
  ScheduleRequest order = schedule_request(setting);
  for (const Stage& stage : decision.stages) {
    order.forward.push_back(stage.forward_time);
    order.backward.push_back(stage.backward_time);
    if (decision.pipeline > PipelineKind::kOneFOneB) {
      order.input_gradient.push_back(stage.backward_time / 2);
      order.weight_gradient.push_back(stage.backward_time / 2);
    }
  }
  if (!decision.heads.empty()) {
    order.head_passes = static_cast<int>(train.batch / decision.heads[0].rows);
    const HeadTimes times = head_times(decision.heads, cost, training_heads(module));
    decision.head_forward_time = times.forward;
    decision.head_backward_time = times.backward;
    decision.head_update_time = times.update;
  }
  decision.schedule = make_schedule(decision.pipeline, order);
  return decision;
}

// Returns the place of a buffer with learned values, and the ids that identify its content, for a comparison of
// programs.
auto place_of(const Buffer& buffer) {
  return std::tuple(buffer.device, buffer.offset, buffer.bytes, buffer.purpose, buffer.param.index, buffer.state,
                    buffer.value.index, buffer.head, buffer.shard);
}

using Places = std::vector<decltype(place_of(Buffer()))>;

Places places_of(const Program& program) {
  Places places;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && !is_refilled(buffer.purpose)) {
      places.push_back(place_of(buffer));
    }
  }
  std::ranges::sort(places);
  return places;
}

// Returns the error for a plan file that another version of xrun made, or that was edited.
Error other_plan(const Plan& plan, bool loaded, const std::string& what) {
  XRUN_CHECK(loaded, "a plan for a growing batch: " + what);
  return {ErrorKind::kContent, "XG0625", "the steps of a growing batch cannot run plan " + plan.id + ": " + what,
          "make the plan again with `xrun plan`"};
}

}  // namespace

Status add_step_programs(Plan& plan, const Module& module, const KernelFacts& facts) {
  plan.smaller.clear();
  if (!module.train.growth) {
    return {};
  }
  const bool loaded = !plan.id.empty();
  const Program& largest = plan.training;
  const int64_t least = module.train.growth->times * largest.replicas;
  if (largest.micro_batches % least != 0) {
    return other_plan(plan, loaded, fmt::format("its micro-batches are not a multiple of {}", least));
  }
  const CostModel cost(facts, plan.machine);
  const int chunks = largest.stages_of_device();
  std::vector<Arena> arenas = largest.arenas;
  for (int64_t units = 1; units < module.train.growth->times; ++units) {
    const auto count = static_cast<int>(units * (largest.micro_batches_of_replica() / module.train.growth->times));
    if (!permits(largest.schedule, static_cast<int>(largest.stages.size()) / chunks, chunks, count)) {
      return other_plan(plan, loaded, fmt::format("{} cannot run {} micro-batches", word_of(largest.schedule), count));
    }
    const Module smaller = with_batch(module, units * module.train.unit());
    const Decision decision = decide_smaller(largest, smaller, cost);
    XRUN_ASSIGN(Program program, emit({smaller, facts, plan.machine, decision}));
    program.ranks = largest.ranks;
    XRUN_ASSIGN(const Prediction predicted, predict_step(program, smaller, cost));
    for (size_t i = 0; i < arenas.size(); ++i) {
      arenas[i].bytes = std::max(arenas[i].bytes, program.arenas[i].bytes);
    }
    plan.smaller.push_back({units, std::move(program), predicted.step});
  }
  if (loaded && !std::ranges::equal(arenas, largest.arenas, {}, &Arena::bytes, &Arena::bytes)) {
    return other_plan(plan, loaded, "its memory is too small for the first steps");
  }
  enlarge_arenas(plan.training, arenas);
  const Places places = places_of(largest);
  for (StepProgram& step : plan.smaller) {
    enlarge_arenas(step.program, arenas);
    XRUN_TRY(verify_program(step.program, with_batch(module, step.program.batch)));
    if (places_of(step.program) != places) {
      return other_plan(plan, loaded, "its weights lie in other places");
    }
  }
  return {};
}

}  // namespace xrun::planner
