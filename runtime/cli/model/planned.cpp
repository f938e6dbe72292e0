// Tests: tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/model/planned.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "runtime/cli/console/counts.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/search_watch.h"
#include "runtime/device/host.h"

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
         prepared.training_facts.isa;
}

std::string about_plan(const planner::Plan& plan) {
  return plan.id + ", " + format_count(static_cast<int64_t>(plan.training.instructions.size())) +
         " instructions a step, chosen among " + std::to_string(plan.alternatives.size() + 1);
}

// Loads and prepares a model without planning it.
Outcome<PlannedModel> read_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                 bool needs_training, Phase& phase, const lang::Texts* texts = nullptr) {
  XRUN_TRY(check_working_directory(path));
  XRUN_ASSIGN(LoadedModel model, load_model(path, options, console, false, texts));
  phase.done("read", about_files(model));
  XRUN_TRY(check_complete(model, needs_training));
  for (SourceDigest& source : model.file.module.sources) {
    source.path = source_path(source.path);
  }
  XRUN_ASSIGN(PreparedModel prepared,
              with_sources(prepare_model(model.file.module, model.file.run.figures, options, console), model.sources));
  phase.done("prepared", about_module(prepared));
  return PlannedModel{.model = std::move(model), .prepared = std::move(prepared), .plan = {}};
}

// Makes the module of a loaded plan, and checks that the plan still fits that module.
Outcome<PlannedModel> with_module(planner::Plan plan, const std::string& path, const GlobalOptions& given,
                                  const Console& console, Phase& phase) {
  std::string file;
  const GlobalOptions options = with_plan_options(given, plan.options, file);
  if (std::error_code ignored; !std::filesystem::exists(file, ignored)) {
    return content_error("XG0625", {"`{}` was made from `{}`, which does not exist", path, file},
                         "restore the model, or make the plan again from the model's new path");
  }
  XRUN_ASSIGN(PlannedModel planned, read_model(shown_path(file), options, console, true, phase));
  const PreparedModel& prepared = planned.prepared;
  const SourceMap& sources = planned.model.sources;
  XRUN_TRY(with_sources(
      planner::check_fresh(plan, prepared.training, prepared.training_facts, prepared.machine, &prepared.inference),
      sources));
  phase.done("checked", "the plan matches its sources and this machine");
  planned.plan = std::move(plan);
  XRUN_TRY(with_sources(planner::complete_plan(planned.plan, prepared.training, prepared.training_facts), sources));
  return planned;
}

Outcome<PlannedModel> load_planned(const std::string& path, const GlobalOptions& given, const Console& console) {
  XRUN_TRY(check_plan_flags(path, given));
  Phase phase(console);
  XRUN_ASSIGN(planner::Plan plan, planner::load_plan(path, &ops::registry()));
  phase.done("plan", about_plan(plan));
  return with_module(std::move(plan), path, given, console, phase);
}

// Returns the function that collects facts about other row blocks, which the planner proposes. Their times come from
// formulas, since measuring takes long. `prepared` outlives it.
planner::FactsOf facts_of(const PreparedModel& prepared) {
  return [&prepared](const Module& module, bool training) { return kernel_facts(module, training, prepared); };
}

Result<planner::Plan> search(const PreparedModel& prepared, const GlobalOptions& options, const Console& console) {
  SearchWatch watch(console);
  return planner::make_plan(prepared.training, prepared.inference, prepared.training_facts, prepared.inference_facts,
                            prepared.machine,
                            {.facts_of = facts_of(prepared),
                             .progress = [&](std::string what) { watch.set(std::move(what)); },
                             .in_time = in_time_of(options)});
}

// Adds to the flags what the driver has reported, so that a plan of the flags needs no driver.
GlobalOptions with_gpus(GlobalOptions options, const PreparedModel& prepared) {
  if (prepared.gpus) {
    options.gpus = prepared.gpus->numbers;
    options.card = prepared.gpus->figures;
  }
  return options;
}

Outcome<PlannedModel> make_planned(const std::string& path, const GlobalOptions& options, const Console& console,
                                   bool needs_training, const lang::Texts* texts) {
  Phase phase(console);
  XRUN_ASSIGN(PlannedModel planned, read_model(path, options, console, needs_training, phase, texts));
  XRUN_ASSIGN(planner::Plan plan, with_sources(search(planned.prepared, options, console), planned.model.sources));
  // Stores in the plan the flags and sources from which it was made.
  plan.options = plan_options(path, with_gpus(options, planned.prepared));
  plan.sources = planned.model.file.module.sources;
  plan.layer_times = planned.prepared.layer_times;
  if (std::string text = calibration_text(planned.prepared.training, planned.prepared); !text.empty()) {
    plan.options.emplace_back("calibration", std::move(text));
  }
  phase.done("planned", about_plan(plan));
  planned.plan = std::move(plan);
  return planned;
}

}  // namespace

int PlannedModel::workers() const {
  if (plan.machine.has_gpus()) {
    return std::min(plan.machine.cores, runtime::detect_host().cores);
  }
  int sum = plan.training.ranks == 1 ? plan.machine.threads : 0;
  for (int device = 0; plan.training.ranks > 1 && device < plan.training.devices; ++device) {
    sum += plan.training.rank_of(device) == rank ? plan.training.threads[static_cast<size_t>(device)] : 0;
  }
  return sum;
}

std::function<bool()> in_time_of(const GlobalOptions& options) {
  const auto limit = parse_time(options.search_time);
  if (!limit) {
    return nullptr;
  }
  return [limit = *limit, begin = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < limit;
  };
}

Status check_plan_flags(const std::string& path, const GlobalOptions& options) {
  if (const std::string flag = deciding_flag(options); !flag.empty()) {
    return usage_error(
        "XG0620", "`" + flag + "` (or its XRUN_ variable) has no effect on `" + path + "`: a plan holds its settings",
        "give the model file, or plan again with " + flag);
  }
  return {};
}

Outcome<PlannedModel> plan_from(const std::string& path, const GlobalOptions& options, const Console& console,
                                bool needs_training) {
  return is_plan_file(path) ? load_planned(path, options, console)
                            : make_planned(path, options, console, needs_training, nullptr);
}

Outcome<PlannedModel> plan_received(const std::string& bytes, const GlobalOptions& options, const Console& console) {
  Phase phase(console);
  XRUN_ASSIGN(planner::Plan plan, planner::load_plan_bytes(std::as_bytes(std::span(bytes)), "the plan of rank 0"));
  return with_module(std::move(plan), "the plan of rank 0", options, console, phase);
}

Outcome<PlannedModel> model_from(const std::string& path, const GlobalOptions& options, const Console& console) {
  Phase phase(console);
  return read_model(path, options, console, true, phase);
}

Outcome<PlannedModel> plan_texts(const std::string& path, const lang::Texts& texts, const GlobalOptions& options,
                                 const Console& console) {
  return make_planned(path, options, console, true, &texts);
}

Status explain_choices(PlannedModel& planned) {
  if (planned.plan.certificate && !planned.plan.certificate->complete) {
    return {};  // --search-time is over
  }
  const PreparedModel& prepared = planned.prepared;
  XRUN_TRY(planner::explain_idle_devices(planned.plan, prepared.training, prepared.inference, prepared.training_facts,
                                         prepared.inference_facts, facts_of(prepared)));
  return planner::explain_head_choices(planned.plan, prepared.training, prepared.inference, prepared.training_facts,
                                       prepared.inference_facts);
}

}  // namespace xrun::cli
