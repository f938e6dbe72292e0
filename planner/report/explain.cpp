// Tests: tests/planner/report/text_test.cpp, tests/planner/planner_test.cpp
#include "planner/report/explain.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace xrun::planner {
namespace {

using Key = Reason::Key;
using Cause = Reason::Cause;
using Verdict = Rival::Verdict;

// Candidates are sorted by their times rounded to thousandths, so a later candidate may be faster by this fraction.
constexpr double kAlike = 1e-3;

// A search and its choice. A setting may have no candidate.
struct Searched {
  const SearchInput& input;
  const Choice& choice;
  const std::vector<Candidate>& candidates;
  const std::vector<Setting>& settings;
  const Setting& chosen() const { return choice.fitted[0].candidate.setting; }
};

Rival rival_of(const Setting& setting, const Prediction& predicted, Bytes memory, Seconds plan_step) {
  Rival rival{.stages = setting.stages,
              .replicas = setting.replicas,
              .micro_batches = setting.micro_batches,
              .pipeline = setting.hint(),
              .step = predicted.step,
              .memory = memory,
              .ratio = predicted.step / plan_step - 1,
              .idle = predicted.bubble + predicted.imbalance};
  rival.verdict = rival.ratio > 5e-4 ? Verdict::kSlower : Verdict::kNoFaster;
  return rival;
}

// Returns the fastest of the settings for which `wanted` is true. Times are taken from programs if programs were made,
// else they are estimates. A setting was not compared if the search ended before it, or if its estimate is faster than
// the plan. In the second case, others of its kind were tried first, and no program of it was made.
template <typename Wanted>
std::optional<Rival> fastest(const Searched& search, const Wanted& wanted) {
  const Choice& choice = search.choice;
  const Fitted& chosen = choice.fitted[0];
  for (const Fitted& one : choice.fitted) {
    if (const Setting& setting = one.candidate.setting; wanted(setting)) {
      return rival_of(setting, one.predicted, one.largest_device, chosen.predicted.step);
    }
  }
  for (const Candidate& one : search.candidates) {
    if (wanted(one.setting)) {
      Rival rival = rival_of(one.setting, one.predicted, one.largest_stage, chosen.candidate.predicted.step);
      rival.is_estimate = true;
      if (std::ranges::find(choice.refused, one.setting) != choice.refused.end()) {
        rival.verdict = Verdict::kDoesNotFit;
      } else if (rival.ratio < -kAlike) {
        rival.verdict = Verdict::kNotCompared;
      }
      return rival;
    }
  }
  const auto missed = std::ranges::find_if(search.settings, wanted);
  if (choice.complete || missed == search.settings.end()) {
    return std::nullopt;
  }
  return Rival{.stages = missed->stages,
               .replicas = missed->replicas,
               .micro_batches = missed->micro_batches,
               .pipeline = missed->hint(),
               .verdict = Verdict::kNotCompared,
               .is_estimate = true};
}

// Sets the cause of a reason, and the number to which the cause refers.
void set_cause(Reason& reason, Cause cause, int64_t count = 0) {
  reason.cause = cause;
  reason.count = count;
}

// Sets the cause of a decision: a hint, or a comparison with the settings for which `wanted` is true. Returns false if
// there is neither a hint nor such a setting.
template <typename Wanted>
bool set_compared(Reason& reason, const Searched& search, bool hinted, const Wanted& wanted) {
  reason.rival = hinted ? std::nullopt : fastest(search, wanted);
  reason.cause = hinted ? Cause::kAskedFor : reason.rival ? Cause::kRival : Cause::kNothingElse;
  return reason.cause != Cause::kNothingElse;
}

// Sets the reason why no candidate has `wanted` stages.
void set_only_stages(Reason& reason, const SearchInput& input, int wanted) {
  const ScheduleSpec& schedule = input.module.schedule;
  if (schedule.replicas && wanted * schedule.replicas->value > input.machine.devices) {
    set_cause(reason, Cause::kReplicasOnAll, schedule.replicas->value);
  } else {
    set_cause(reason, schedule.pins.empty() ? Cause::kNoOtherCuts : Cause::kPins);
  }
}

// Sets the reason why no candidate with replicas on this number of devices has more of them.
void set_only_replicas(Reason& reason, const SearchInput& input, int ranks) {
  const ScheduleSpec& schedule = input.module.schedule;
  const TrainSpec& train = input.module.train;
  if (ranks * 2 > input.machine.devices) {
    set_cause(reason, Cause::kStagesOnAll);
    return;
  }
  const int64_t blocks = train.batch / train.norm_rows;
  const int64_t partials = input.deterministic ? std::min<int64_t>(4, blocks) : 0;
  bool partials_forbid = false;
  for (int64_t r = 2; r <= std::min<int64_t>(input.machine.devices / ranks, blocks); ++r) {
    if (blocks % r != 0) {
      continue;
    }
    if (schedule.micro_batches && schedule.micro_batches->value % r != 0) {
      set_cause(reason, Cause::kMicroBatches, schedule.micro_batches->value);
      return;
    }
    partials_forbid = partials_forbid || (partials > 0 && partials % r != 0);
  }
  set_cause(reason, partials_forbid ? Cause::kPartials : Cause::kRowBlocks, partials_forbid ? partials : 0);
}

Reason explain_stages(const Searched& search) {
  const int stages = search.chosen().stages;
  const int ranks = search.chosen().ranks();
  const int wanted = stages == 1 ? 2 : stages > ranks ? ranks : stages - 1;
  Reason reason{.key = Key::kStages, .value = stages};
  const bool hinted = search.input.module.schedule.stages.has_value();
  if (set_compared(reason, search, hinted, [&](const Setting& s) { return s.stages == wanted; })) {
    return reason;
  }
  if (search.input.machine.devices == 1) {
    set_cause(reason, Cause::kOneDevice);
  } else {
    set_only_stages(reason, search.input, wanted);
  }
  return reason;
}

Reason explain_replicas(const Searched& search) {
  const Setting& setting = search.chosen();
  Reason reason{.key = Key::kReplicas, .value = setting.replicas};
  const bool hinted = search.input.module.schedule.replicas.has_value();
  if (set_compared(reason, search, hinted,
                   [&](const Setting& s) { return s.stages == setting.stages && s.replicas != setting.replicas; })) {
    return reason;
  }
  if (search.input.machine.devices == 1) {
    set_cause(reason, Cause::kOneDevice);
  } else {
    set_only_replicas(reason, search.input, setting.ranks());
  }
  return reason;
}

Reason explain_micro_batches(const Searched& search) {
  const Setting& setting = search.chosen();
  Reason reason{.key = Key::kMicroBatches,
                .value = setting.micro_batches,
                .rows = search.choice.fitted[0].candidate.decision.batch / setting.micro_batches};
  set_compared(reason, search, search.input.module.schedule.micro_batches.has_value(), [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas == setting.replicas && s.micro_batches > setting.micro_batches;
  });
  return reason;
}

Reason explain_pipeline(const Searched& search) {
  const Setting& setting = search.chosen();
  Reason reason{.key = Key::kPipeline, .value = static_cast<int64_t>(setting.pipeline)};
  reason.of = setting.pipeline == PipelineKind::kInterleaved ? setting.chunks : setting.warm_up;
  set_compared(reason, search, search.input.module.schedule.pipeline.has_value(), [&](const Setting& s) {
    return s.ranks() == setting.ranks() && s.replicas == setting.replicas && s.pipeline != setting.pipeline;
  });
  return reason;
}

Reason explain_granularity(const Searched& search) {
  const Setting& setting = search.chosen();
  const Module& module = search.input.module;
  Reason reason{.key = Key::kGranularity, .head = module.graph.heads[0].name, .value = setting.one_head_pass ? 1 : 0};
  set_compared(reason, search, find_granularity(module.schedule) != nullptr, [&](const Setting& s) {
    return s.stages == setting.stages && s.replicas == setting.replicas && s.hint() == setting.hint() &&
           s.one_head_pass != setting.one_head_pass;
  });
  return reason;
}

// Returns the state of the head at index `h` in Program::heads.
HeadState head_state(const Program& program, int32_t h) {
  const HeadPlan& head = program.heads[static_cast<size_t>(h)];
  HeadState state{.mapped = head.mapped,
                  .weights = head.weights,
                  .states = states_of(program, h),
                  .active = head.active > 0 ? head.active : head.classes,
                  .is_subset = head.active > 0};
  for (const Buffer& buffer : program.buffers) {
    const bool holds = buffer.purpose == Purpose::kHeadWeight || buffer.purpose == Purpose::kHeadOptimizer ||
                       buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLast;
    state.bytes += holds && buffer.head == h ? buffer.bytes : 0;
  }
  for (const HeadShard& shard : head.shards) {
    state.kept += head.kept_classes(shard);
  }
  state.kept = state.kept * state.active / head.classes;
  state.logits = 4 * (state.kept == 0 ? program.batch * state.active : head.rows * state.kept);
  return state;
}

std::vector<Reason> explain_shards(const Fitted& chosen, const SearchInput& input) {
  std::vector<Reason> reasons;
  for (size_t h = 0; h < chosen.training.heads.size(); ++h) {
    const HeadPlan& head = chosen.training.heads[h];
    reasons.push_back({.key = Key::kShards,
                       .head = input.module.graph.heads[static_cast<size_t>(head.head)].name,
                       .value = std::ssize(head.shards),
                       .cause = Cause::kHeadState,
                       .head_state = head_state(chosen.training, static_cast<int32_t>(h))});
  }
  return reasons;
}

// Returns the number of settings whose estimate is faster than that of the plan but that do not fit, or only if layers
// run again.
int64_t faster_refused(const Choice& choice, const std::vector<Candidate>& candidates) {
  const Seconds own = choice.fitted[0].candidate.predicted.step;
  return std::ranges::count_if(candidates, [&](const Candidate& one) {
    const bool runs_again = std::ranges::any_of(choice.fitted, [&](const Fitted& fitted) {
      return fitted.candidate.setting == one.setting && recomputed_layers(fitted.training) > 0;
    });
    return one.predicted.step < own * (1 - kAlike) &&
           (runs_again || std::ranges::find(choice.refused, one.setting) != choice.refused.end());
  });
}

Reason explain_recompute(const Choice& choice, const std::vector<Candidate>& candidates, const SearchInput& input) {
  const Fitted& chosen = choice.fitted[0];
  Reason reason{.key = Key::kRecompute, .value = recomputed_layers(chosen.training)};
  for (const Stage& stage : chosen.training.stages) {
    reason.of += std::ssize(stage.forward);
  }
  set_cause(reason,
            input.hints.hinted        ? Cause::kAskedFor
            : reason.value == 0       ? Cause::kActivationsFit
            : chosen.candidate.proven ? Cause::kCheapestThatFits
                                      : Cause::kFits,
            reason.value == 0 && !input.hints.hinted ? faster_refused(choice, candidates) : 0);
  return reason;
}

}  // namespace

int recomputed_layers(const Program& program) {
  size_t count = 0;
  for (const Stage& stage : program.stages) {
    count += stage.recomputed.size();
  }
  return static_cast<int>(count);
}

std::vector<Reason> explain(const SearchInput& input, const Choice& choice, const std::vector<Candidate>& candidates,
                            const std::vector<Setting>& settings) {
  const Searched search{input, choice, candidates, settings};
  std::vector<Reason> reasons{explain_stages(search), explain_replicas(search), explain_micro_batches(search)};
  if (search.chosen().stages > 1 || search.chosen().pipeline == PipelineKind::kOneFOneB) {
    reasons.push_back(explain_pipeline(search));
  }
  if (chooses_granularity(search.chosen(), input.module)) {
    reasons.push_back(explain_granularity(search));
  }
  for (Reason& reason : explain_shards(choice.fitted[0], input)) {
    reasons.push_back(std::move(reason));
  }
  reasons.push_back(explain_recompute(choice, candidates, input));
  return reasons;
}

namespace {

// Sets the fields that depend on the setting and on the predicted time.
Alternative alternative_of(const Module& module, const Setting& setting, const Prediction& predicted, Bytes memory,
                           double ratio) {
  return {.stages = setting.stages,
          .replicas = setting.replicas,
          .micro_batches = setting.micro_batches,
          .pipeline = setting.hint(),
          .head_devices = setting.head_devices,
          .one_head_pass = setting.one_head_pass,
          .head = chooses_granularity(setting, module) ? module.graph.heads[0].name : "",
          .step = predicted.step,
          .memory = memory,
          .ratio = ratio,
          .idle = predicted.bubble + predicted.imbalance};
}

Alternative alternative_of(const Module& module, const Fitted& fitted, const Fitted& chosen) {
  Alternative made = alternative_of(module, fitted.candidate.setting, fitted.predicted, fitted.largest_device,
                                    fitted.predicted.step / chosen.predicted.step - 1);
  made.recomputed = recomputed_layers(fitted.training);
  return made;
}

// The most plans of other settings and of other kinds that are listed.
constexpr size_t kOthers = 5;

}  // namespace

std::vector<Alternative> list_alternatives(const Module& module, const std::vector<Fitted>& fitted) {
  std::vector<Alternative> alternatives;
  for (size_t i = 1; i < std::min(fitted.size(), kOthers + 1); ++i) {
    alternatives.push_back(alternative_of(module, fitted[i], fitted[0]));
  }
  std::ranges::stable_sort(alternatives, {}, &Alternative::step);
  return alternatives;
}

std::vector<Alternative> list_other_kinds(const Module& module, const Choice& choice,
                                          const std::vector<Candidate>& candidates) {
  const Fitted& chosen = choice.fitted[0];
  // With one stage, GPipe and 1F1B count as one kind.
  const auto kind_of = [](const Setting& setting) {
    return std::tuple(setting.stages, setting.replicas, setting.stages == 1 ? PipelineKind::kGpipe : setting.pipeline);
  };
  std::set<std::tuple<int, int, PipelineKind>> seen{kind_of(chosen.candidate.setting)};
  std::vector<Alternative> others;
  for (const Fitted& fitted : choice.fitted) {
    if (seen.insert(kind_of(fitted.candidate.setting)).second) {
      others.push_back(alternative_of(module, fitted, chosen));
    }
  }
  for (const Candidate& candidate : candidates) {  // fastest first
    if (std::ranges::find(choice.refused, candidate.setting) == choice.refused.end() &&
        seen.insert(kind_of(candidate.setting)).second) {
      // A rough candidate lacks what delays all plans alike, such as reading data.
      const double ratio = std::max(0.0, candidate.predicted.step / chosen.candidate.predicted.step - 1);
      Alternative other =
          alternative_of(module, candidate.setting, candidate.predicted, candidate.largest_stage, ratio);
      other.step = chosen.predicted.step * (1 + ratio);
      other.is_estimate = true;
      others.push_back(std::move(other));
    }
  }
  std::ranges::stable_sort(others, {}, &Alternative::step);
  others.resize(std::min(others.size(), kOthers));
  return others;
}

}  // namespace xrun::planner
