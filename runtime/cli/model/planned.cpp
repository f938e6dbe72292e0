#include "runtime/cli/model/planned.h"

#include <filesystem>
#include <span>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "ops/facts/facts.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/search_watch.h"

namespace xrun::cli {
namespace {

std::string about_files(const LoadedModel& model) {
  std::string text;
  for (const SourceDigest& source : model.file.module.sources) {
    text += (text.empty() ? "" : ", ") + source.path;
  }
  return text;
}

std::string about_module(const PreparedModel& prepared) {
  return std::to_string(prepared.training.graph.nodes.size()) + " operators, " +
         format_count(prepared.training.graph.parameter_count()) + " parameters, kernels for " +
         std::string(ops::name_of(prepared.isa));
}

std::string about_plan(const planner::Plan& plan) {
  return plan.id + ", " + format_count(static_cast<int64_t>(plan.training.instructions.size())) +
         " instructions a step, chosen among " + std::to_string(plan.alternatives.size() + 1);
}

// Loads and prepares a model without planning it. Returns nullopt after an error, which has been printed.
std::optional<PlannedModel> read_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                       bool needs_training, int& exit, Phase& phase,
                                       const lang::Texts* texts = nullptr) {
  if (const Status known = check_working_directory(path); !known.ok()) {
    exit = console.fail(known.error());
    return std::nullopt;
  }
  auto model = load_model(path, options, console, false, exit, texts);
  if (!model) {
    return std::nullopt;
  }
  phase.done("read", about_files(*model));
  exit = refuse_unfinished(*model, console, needs_training);
  if (exit != 0) {
    return std::nullopt;
  }
  for (SourceDigest& source : model->file.module.sources) {
    source.path = source_path(source.path);
  }
  auto prepared = prepare_model(model->file.module, options, console);
  if (!prepared.ok()) {
    exit = console.fail(prepared.error(), model->sources);
    return std::nullopt;
  }
  phase.done("prepared", about_module(*prepared));
  return PlannedModel{.model = std::move(*model), .prepared = std::move(prepared).value(), .plan = {}};
}

// Makes the module of a loaded plan, and checks that the plan still fits that module.
std::optional<PlannedModel> with_module(planner::Plan plan, const std::string& path, const GlobalOptions& given,
                                        const Console& console, int& exit, Phase& phase) {
  std::string file;
  const GlobalOptions options = with_plan_options(given, plan.options, file);
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    exit = console.fail(content_error("XG0625", {"`{}` was made from `{}`, which does not exist", path, file},
                                      "restore the model, or make the plan again from the model's new path"));
    return std::nullopt;
  }
  auto planned = read_model(shown_path(file), options, console, true, exit, phase);
  if (!planned) {
    return std::nullopt;
  }
  const PreparedModel& prepared = planned->prepared;
  const Status fresh =
      planner::check_fresh(plan, prepared.training, prepared.training_facts, prepared.machine, &prepared.inference);
  if (!fresh.ok()) {
    exit = console.fail(fresh.error(), planned->model.sources);
    return std::nullopt;
  }
  phase.done("checked", "the plan matches its sources and this machine");
  planned->plan = std::move(plan);
  if (const Status complete = planner::complete_plan(planned->plan, prepared.training, prepared.training_facts);
      !complete.ok()) {
    exit = console.fail(complete.error(), planned->model.sources);
    return std::nullopt;
  }
  return planned;
}

std::optional<PlannedModel> load_planned(const std::string& path, const GlobalOptions& given, const Console& console,
                                         int& exit) {
  if (const std::string flag = deciding_flag(given); !flag.empty()) {
    exit = console.fail(usage_error(
        "XG0620", "`" + flag + "` (or its XRUN_ variable) has no effect on `" + path + "`: a plan holds its settings",
        "give the model file, or plan again with " + flag));
    return std::nullopt;
  }
  Phase phase(console);
  auto plan = planner::load_plan(path);
  if (!plan.ok()) {
    exit = console.fail(plan.error());
    return std::nullopt;
  }
  phase.done("plan", about_plan(*plan));
  return with_module(std::move(plan).value(), path, given, console, exit, phase);
}

// Collects the facts about other row blocks that the planner proposes. Their times come from formulas, since measuring
// takes long.
planner::FactsOf facts_of(const PreparedModel& prepared) {
  return [isa = prepared.isa](const Module& module, bool training) {
    return ops::collect_facts(module.graph, module.train.norm_rows, training, isa, module.train.deterministic);
  };
}

Result<planner::Plan> search(const PreparedModel& prepared, const Console& console) {
  SearchWatch watch(console);
  return planner::make_plan(
      prepared.training, prepared.inference, prepared.training_facts, prepared.inference_facts, prepared.machine,
      {.facts_of = facts_of(prepared), .progress = [&](std::string what) { watch.set(std::move(what)); }});
}

std::optional<PlannedModel> make_planned(const std::string& path, const GlobalOptions& options, const Console& console,
                                         bool needs_training, int& exit, const lang::Texts* texts) {
  Phase phase(console);
  auto planned = read_model(path, options, console, needs_training, exit, phase, texts);
  if (!planned) {
    return std::nullopt;
  }
  const PreparedModel& prepared = planned->prepared;
  auto plan = search(prepared, console);
  if (!plan.ok()) {
    exit = console.fail(plan.error(), planned->model.sources);
    return std::nullopt;
  }
  // Stores the flags and settings that made the plan in the plan.
  plan->options = plan_options(path, options);
  plan->sources = planned->model.file.module.sources;
  phase.done("planned", about_plan(*plan));
  planned->plan = std::move(plan).value();
  return planned;
}

}  // namespace

int PlannedModel::workers() const {
  int sum = plan.training.ranks == 1 ? plan.machine.threads : 0;
  for (int device = 0; plan.training.ranks > 1 && device < plan.training.devices; ++device) {
    sum += plan.training.rank_of(device) == rank ? plan.training.threads[static_cast<size_t>(device)] : 0;
  }
  return sum;
}

std::optional<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool needs_training, int& exit) {
  return is_plan_file(path) ? load_planned(path, options, console, exit)
                            : make_planned(path, options, console, needs_training, exit, nullptr);
}

std::optional<PlannedModel> plan_received(const std::string& bytes, const GlobalOptions& options,
                                          const Console& console, int& exit) {
  Phase phase(console);
  auto plan = planner::load_plan_bytes(std::as_bytes(std::span(bytes)), "the plan of rank 0");
  if (!plan.ok()) {
    exit = console.fail(plan.error());
    return std::nullopt;
  }
  return with_module(std::move(plan).value(), "the plan of rank 0", options, console, exit, phase);
}

std::optional<PlannedModel> model_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                       int& exit) {
  Phase phase(console);
  return read_model(path, options, console, true, exit, phase);
}

std::optional<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                       const Console& console, int& exit) {
  return make_planned(path, options, console, true, exit, &texts);
}

Status explain_choices(PlannedModel& planned) {
  const PreparedModel& prepared = planned.prepared;
  XRUN_TRY(planner::explain_idle_devices(planned.plan, prepared.training, prepared.inference, prepared.training_facts,
                                         prepared.inference_facts, facts_of(prepared)));
  return planner::explain_head_choices(planned.plan, prepared.training, prepared.inference, prepared.training_facts,
                                       prepared.inference_facts);
}

}  // namespace xrun::cli
