// Tests: tests/planner/search/class_fit_test.cpp
#include "planner/search/head_choices.h"

#include <algorithm>
#include <cstdio>

#include "graph/settings/group_rules.h"
#include "graph/settings/known_update.h"
#include "planner/program/buffer_sizes.h"
#include "planner/search/layer_hints.h"

namespace xrun::planner {
namespace {

ActiveSpec sample(double share) {
  ActiveSpec active;
  active.kind = ActiveSpec::kSample;
  active.amount = share;
  return active;
}

std::string amount_text(const ActiveSpec& active) {
  char text[32];
  if (active.amount > 1) {
    return format_count(static_cast<int64_t>(active.amount));
  }
  std::snprintf(text, sizeof text, "%g %%", 100 * active.amount);
  return text;
}

}  // namespace

std::string active_text(const ActiveSpec& active) {
  return active.kind == ActiveSpec::kAll      ? "all"
         : active.kind == ActiveSpec::kSample ? "sample " + amount_text(active)
                                              : "knn " + amount_text(active);
}

std::string rows_text(const HeadChoice& choice, int states) {
  const std::string weights(name_of(choice.weights));
  return states == 0 ? weights : weights + ", states " + std::string(name_of(choice.states));
}

std::string setting_text(const HeadChoice& choice, const HeadChoice& from, const std::string& head, int states) {
  std::string text;
  if (!choice.same_active(from)) {
    std::string amount = amount_text(choice.active);
    std::erase(amount, ' ');
    text = choice.active.kind == ActiveSpec::kAll ? "active_classes = all" : "active_classes = sample(" + amount + ")";
  }
  const auto add = [&](const char* key, std::string_view value) {
    text += text.empty() ? "" : ", ";
    text += "groups." + head + "." + key + " = " + std::string(value);
  };
  if (choice.weights != from.weights) {
    add("weights", name_of(choice.weights));
  }
  if (choice.states != from.states && states > 0) {
    add("states", name_of(choice.states));
  }
  if (choice.untouched != from.untouched) {
    add("untouched", name_of(choice.untouched));
  }
  return text;
}

std::optional<size_t> largest_head(const std::vector<HeadPlan>& heads) {
  std::optional<size_t> largest;
  for (size_t h = 0; h < heads.size(); ++h) {
    const bool trained = heads[h].loss.valid() && !heads[h].frozen;
    if (trained && (!largest || heads[h].classes > heads[*largest].classes)) {
      largest = h;
    }
  }
  return largest;
}

HeadChoice choice_of(const Module& module, const HeadPlan& head) {
  return {.active = module.train.active_classes,
          .weights = head.weights,
          .states = head.states,
          .untouched = head.untouched};
}

std::vector<HeadChoice> head_choices(const Module& module, const HeadPlan& head) {
  const HeadChoice now = choice_of(module, head);
  const int states = static_cast<int>(optimizer_states(module).size());
  std::vector<ActiveSpec> actives{now.active};
  if (module.cluster.gpu.empty()) {  // heads on GPUs train with all classes
    actives.insert(actives.end(), {{}, sample(0.1), sample(0.01)});
  }
  std::vector<HeadChoice> rows{now, {.weights = RowFormat::kF32, .states = RowFormat::kF32}};
  for (const RowFormat weights : {RowFormat::kBf16, RowFormat::kFp8}) {
    // Class rows of GPUs are f32 or bf16.
    if (weights == RowFormat::kBf16 || (module.cluster.gpu.empty() && steps_vanish(module.train.optimizer))) {
      rows.push_back({.weights = weights, .states = states > 0 ? RowFormat::kBf16 : RowFormat::kF32});
    }
  }
  std::vector<HeadChoice> choices;
  for (const HeadChoice& format : rows) {
    for (const ActiveSpec& active : actives) {
      HeadChoice one{active, format.weights, format.states};
      const bool may_catch_up = one.states == RowFormat::kF32 && active.kind != ActiveSpec::kAll;
      one.untouched = may_catch_up ? now.untouched : Untouched::kAsIs;
      const bool known = std::ranges::any_of(
          choices, [&](const HeadChoice& other) { return one.same_rows(other) && one.same_active(other); });
      if (!known) {
        choices.push_back(one);
      }
    }
  }
  return choices;
}

std::vector<HeadChoice> single_changes(const Module& module, const HeadPlan& head) {
  const HeadChoice now = choice_of(module, head);
  std::vector<HeadChoice> choices = head_choices(module, head);
  std::erase_if(choices, [&](const HeadChoice& one) { return !one.same_rows(now) && !one.same_active(now); });
  return choices;
}

Module with_choice(Module module, size_t head, const HeadChoice& choice) {
  const Graph& graph = module.graph;
  const ParamId weight = graph.value(graph.node(graph.heads[head].node).inputs[1]).param;
  GroupSpec group;
  group.path = graph.param(weight).name;
  group.weights = choice.weights;
  group.states = choice.states;
  group.untouched = choice.untouched;
  module.train.groups.push_back(std::move(group));
  module.train.active_classes = choice.active;
  return module;
}

Module with_classes(Module module, size_t head, int64_t classes) {
  Graph& graph = module.graph;
  const Node& node = graph.node(graph.heads[head].node);
  graph.value(node.outputs[0]).type.dims[1] = classes;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    graph.value(node.inputs[i]).type.dims[0] = classes;
  }
  return module;
}

namespace {

// Returns the bytes that the passes of a head read and write in a step.
Bytes bytes_moved(const Program& program, const HeadPlan& head, int states) {
  const int64_t taking = head.active > 0 ? head.active : head.classes;
  const Bytes row = head.dim * element_bytes(head.weights);
  const Bytes state = head.dim * element_bytes(head.states) * states;
  const int64_t passes = program.batch / head.rows;
  // The forward and the backward pass read the rows, and an update sweep reads them once more. One of these writes
  // them.
  const int64_t reads = 2 * passes + (head.update_sweep ? 1 : 0);
  Bytes kept = 0;
  for (const HeadShard& shard : head.shards) {
    kept += head.kept_classes(shard) * taking / head.classes;
  }
  return taking * (row * (reads + 1) + 2 * state) + 2 * 4 * program.batch * kept;
}

}  // namespace

namespace {

// Returns the value of Setting::head_devices from which a program was made.
int head_devices_of(const Program& program, const ScheduleSpec& schedule) {
  if (places_heads(schedule)) {
    return 0;
  }
  const auto shards = program.heads.empty() ? 0 : static_cast<int>(program.heads[0].shards.size());
  return shards < program.devices ? shards : 0;
}

}  // namespace

Result<std::vector<HeadCost>> head_costs(const FitInput& base, const Plan& plan, const HeadPlan& head) {
  const SearchInput& from = base.search;
  const Program& program = plan.training;
  const int states = static_cast<int>(optimizer_states(from.module).size());
  const MemoryLimits limits = memory_limits(from.module, from.machine);
  const HeadChoice now = choice_of(from.module, head);
  Setting setting = setting_of(program);
  setting.head_devices = head_devices_of(program, from.module.schedule);
  std::vector<HeadCost> costs;
  for (const HeadChoice& choice : single_changes(from.module, head)) {
    const auto index = static_cast<size_t>(head.head);
    const Module training = with_choice(from.module, index, choice);
    const Module inference = with_choice(base.inference, index, choice);
    XRUN_ASSIGN(LayerHints hints, layer_hints(training, from.chain));
    const SearchInput space{training, from.chain, from.cost, from.machine, std::move(hints), from.deterministic};
    const FitInput input{space, inference, base.inference_facts, base.inference_chain, base.inference_cost};
    XRUN_ASSIGN(const std::vector<Candidate> made, decide(space, setting, space.hints.recompute));
    HeadCost cost{
        .choice = choice, .states = states, .chosen = choice.same_rows(now) && choice.same_active(now), .fits = false};
    if (!made.empty()) {
      Fitted smallest;
      XRUN_ASSIGN(const std::optional<Fitted> fitted, fit(input, made[0], limits, smallest));
      const Fitted& shown = fitted ? *fitted : smallest;
      const auto own = std::ranges::find(shown.training.heads, head.head, &HeadPlan::head);
      cost.fits = fitted.has_value();
      cost.step = shown.predicted.step;
      cost.memory = shown.memory.sum();
      cost.moved = bytes_moved(shown.training, *own, states);
      costs.push_back(std::move(cost));
    }
  }
  return costs;
}

Result<Choice> choose_changed(const FitInput& base, const Module& training, const Module& inference,
                              const MemoryLimits& limits, const Effort& effort) {
  const SearchInput& from = base.search;
  XRUN_ASSIGN(LayerHints hints, layer_hints(training, from.chain));
  const SearchInput space{training, from.chain, from.cost, from.machine, std::move(hints), from.deterministic};
  FitInput input{space, inference, base.inference_facts, base.inference_chain, base.inference_cost};
  input.realised = base.realised;
  XRUN_ASSIGN(const std::vector<Setting> settings,
              legal_settings(training, from.chain, from.machine, from.deterministic));
  XRUN_ASSIGN(const std::vector<Candidate> candidates, search(space, settings));
  return choose(input, candidates, limits, effort);
}

}  // namespace xrun::planner
