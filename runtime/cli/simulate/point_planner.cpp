// Tests: tests/cases/simulate_test.cpp
#include "runtime/cli/simulate/point_planner.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "graph/base/errors.h"
#include "planner/planner.h"
#include "planner/report/cluster_traffic.h"
#include "runtime/cli/console/device_flag.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/simulate/sweep_key.h"
#include "runtime/cli/sources/open_headers.h"
#include "runtime/device/host.h"

namespace xrun::cli {
namespace {

// The most models whose passes and facts are kept.
constexpr size_t kMostKnown = 8;

GlobalOptions quiet(GlobalOptions options) {
  options.quiet = true;
  options.verbose = false;
  return options;
}

// The first error of a failure.
std::pair<std::string, std::string> cause_of(const Failure& failure) {
  for (const Diagnostic& one : failure.diagnostics.all()) {
    if (one.severity == Severity::kError) {
      return {one.code, one.message};
    }
  }
  return {failure.error.code, failure.error.message};
}

// Whether a value is not one that its key accepts, whatever the other values are: its syntax, its type or its bounds
// are wrong.
bool is_wrong_value(const Failure& failure) {
  for (const Diagnostic& one : failure.diagnostics.all()) {
    if (one.severity == Severity::kError) {
      const Span& at = one.primary.span;
      const bool is_of_language = one.code.starts_with("XG01") || one.code.starts_with("XG02");
      return is_of_language && (!at.valid() || failure.sources.path(at.file).starts_with("--set "));
    }
  }
  return false;
}

bool is_refusal(const Failure& failure) {
  return failure.diagnostics.has_errors() || failure.error.kind == ErrorKind::kContent ||
         failure.error.kind == ErrorKind::kUsage || failure.error.kind == ErrorKind::kInfeasible;
}

// Takes from the module the settings of the cluster that have no effect yet, and returns a text about each.
std::vector<std::string> take_idle_settings(Module& module) {
  std::vector<std::string> texts;
  std::erase_if(module.not_yet, [&](const Diagnostic& one) {
    const bool is_of_cluster = one.message.starts_with("`node.");
    if (is_of_cluster) {
      texts.push_back(one.message + " (" + one.code + "): planned as if it were left out");
    }
    return is_of_cluster;
  });
  return texts;
}

// Texts about what the devices of a plan cannot run yet.
std::vector<std::string> gaps_of(const PreparedModel& prepared) {
  std::vector<std::string> texts;
  for (const auto& [module, facts] : {std::pair(&prepared.training, &prepared.training_facts),
                                      std::pair(&prepared.inference, &prepared.inference_facts)}) {
    for (const Error& gap : planner::gpu_gaps(*module, *facts, prepared.machine)) {
      const std::string text = gap.message + " (" + gap.code + "): planned by cost forms";
      if (std::ranges::find(texts, text) == texts.end()) {
        texts.push_back(text);
      }
    }
  }
  return texts;
}

// Texts about the sources of the times.
std::vector<std::string> costs_of(const PreparedModel& prepared) {
  const planner::Machine& machine = prepared.machine;
  const ClusterSpec& cluster = prepared.training.cluster;
  std::vector<std::string> texts{
      machine.has_gpus()
          ? "formulas with the rates of " + machine.gpu + ", which no kernel reaches: times are lower bounds"
      : prepared.calibration != nullptr
          ? "times measured by a calibration of " + calibration_text(prepared.training, prepared)
      : prepared.training_facts.measured ? "times of kernels that were measured on this machine"
                                         : "formulas with the rates of cores with " + prepared.training_facts.isa};
  if (machine.nodes() > 1) {
    texts.push_back(
        machine.network.known()
            ? "network " + planner::to_text(machine.network)
            : "the network has no rate, so exchanges between nodes take the time of exchanges within a node");
  }
  if ((machine.has_gpus() || machine.nodes() > 1) && (cluster.cores == 0 || cluster.memory == 0)) {
    texts.emplace_back(
        "a node has the cores and the free memory of this machine where the cluster gives none "
        "(`node.cores`, `node.memory`)");
  }
  const auto active = prepared.training.train.active_classes.kind;
  if (machine.has_gpus() && active != ActiveSpec::kAll) {
    texts.emplace_back("active classes are drawn at the speed of one core, since no kernel of GPUs draws them");
  }
  return texts;
}

// Sets a key, as --set or --devices would. Errors: kUsage XG0214 for a number of devices that is not possible.
Status set_key(GlobalOptions& options, const std::string& key, const std::string& value) {
  if (key != kDevicesKey) {
    options.sets.push_back({key, value, ""});
    return {};
  }
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), options.devices);
  const bool is_whole = fault == std::errc() && end == value.data() + value.size();
  if (!is_whole || options.devices < 1 || options.devices > kMostDevices) {
    return usage_error("XG0214", {"`devices` is `{}`, and a plan has 1 to {} devices", value, kMostDevices},
                       "give whole numbers, as in --sweep devices=1,2,4");
  }
  return {};
}

}  // namespace

PointPlanner::PointPlanner(std::string file, const GlobalOptions& options, std::vector<std::string> keys,
                           const Console& console)
    : file_(std::move(file)),
      options_(options),
      keys_(std::move(keys)),
      quiet_(quiet(options), &held_),
      watch_(console) {
  if (options_.cores == 0) {  // all points have the same machine, although its free memory changes
    const runtime::Host host = runtime::detect_host();
    options_.cores = host.cores;
    options_.memory = host.memory_free;
  }
}

std::string PointPlanner::costs() const { return fmt::format("{}", fmt::join(costs_, "; ")); }

Outcome<GlobalOptions> PointPlanner::options_of(const std::vector<std::string>& values) const {
  GlobalOptions options = options_;
  for (size_t k = 0; k < values.size(); ++k) {
    XRUN_TRY(set_key(options, keys_[k], values[k]));
  }
  return options;
}

Outcome<LoadedModel> PointPlanner::load(const GlobalOptions& options) {
  held_.clear();
  return load_model(file_, options, quiet_, false);
}

Outcome<void> PointPlanner::check_values(const std::vector<std::vector<std::string>>& values_by_key) {
  for (size_t k = 0; k < values_by_key.size(); ++k) {
    for (const std::string& value : values_by_key[k]) {
      GlobalOptions options = options_;
      XRUN_TRY(set_key(options, keys_[k], value));
      if (auto model = load(options); !model.ok() && is_wrong_value(model.error())) {
        return std::move(model).error();
      }
    }
  }
  return {};
}

std::string PointPlanner::kind_of(const std::vector<std::string>& values, const Module& module) const {
  std::string kind = module.cluster.gpu;
  for (size_t k = 0; k < values.size(); ++k) {
    kind += keeps_model(keys_[k]) ? "" : "\n" + keys_[k] + "=" + values[k];
  }
  return kind;
}

Result<PointPlanner::Known> PointPlanner::prepare(const LoadedModel& model, const GlobalOptions& options,
                                                  const std::string& kind) {
  const Module& module = model.file.module;
  const ClusterFigures& figures = model.file.run.figures;
  // Otherwise facts depend on the figures, or on the number of workers.
  const bool is_catalogued = !figures.device && !figures.calibration && options.cost != "measured";
  if (const auto known = known_.find(kind); is_catalogued && known != known_.end()) {
    Known made{.prepared = {}, .samples = known->second.samples};
    XRUN_ASSIGN(made.prepared, prepare_again(known->second.prepared, module, options));
    return made;
  }
  Known made;
  XRUN_ASSIGN(made.prepared, prepare_model(module, figures, options, quiet_));
  PlannedModel planned{.model = model, .prepared = made.prepared, .plan = {}};
  planned.plan.machine = made.prepared.machine;
  planned.plan.training.devices = made.prepared.machine.devices;
  // Data that is missing or wrong does not matter here: without it, the time of an epoch is not known.
  if (const auto headers = open_headers(planned); headers.ok()) {
    made.samples = headers->samples;
  }
  if (known_.size() >= kMostKnown) {
    known_.clear();
  }
  if (is_catalogued) {
    known_.emplace(kind, made);
  }
  return made;
}

Outcome<PointPlanner::Made> PointPlanner::make(const std::vector<std::string>& values, const std::string& progress,
                                               PointEffort effort) {
  watch_.set(progress);
  XRUN_ASSIGN(const GlobalOptions options, options_of(values));
  XRUN_ASSIGN(LoadedModel model, load(options));
  std::vector<std::string> not_run = take_idle_settings(model.file.module);
  XRUN_TRY(check_complete(model, true));
  XRUN_ASSIGN(Known known, with_sources(prepare(model, options, kind_of(values, model.file.module)), model.sources));
  const PreparedModel& prepared = known.prepared;
  const auto facts_of = [&](const Module& module, bool training) { return kernel_facts(module, training, prepared); };
  auto made = planner::make_plan(
      prepared.training, prepared.inference, prepared.training_facts, prepared.inference_facts, prepared.machine,
      {.facts_of = facts_of,
       .progress = [&](const std::string& what) { watch_.set(progress + (progress.empty() ? "" : ": ") + what); },
       .in_time = effort == PointEffort::kFirstFit ? [] { return false; } : in_time_of(options),
       .by_forms = true,
       .fixes = effort == PointEffort::kSearchAndFixes});
  XRUN_ASSIGN(planner::Plan plan, with_sources(std::move(made), model.sources));
  plan.samples = known.samples;
  for (std::string& gap : gaps_of(prepared)) {
    not_run.push_back(std::move(gap));
  }
  for (std::string& one : costs_of(prepared)) {
    if (std::ranges::find(costs_, one) == costs_.end()) {
      costs_.push_back(std::move(one));
    }
  }
  return Made{.plan = std::move(plan), .training = std::move(known.prepared.training), .not_run = std::move(not_run)};
}

Outcome<planner::Plan> PointPlanner::plan_file() {
  XRUN_ASSIGN(Made made, make({}, "", PointEffort::kSearchAndFixes));
  return std::move(made.plan);
}

Outcome<planner::SweepPoint> PointPlanner::plan(const std::vector<std::string>& values, const std::string& progress,
                                                PointEffort effort) {
  auto made = make(values, progress, effort);
  planner::SweepPoint point{.values = values, .plan = std::nullopt};
  if (made.ok()) {
    point.plan = planner::simulated_plan(made->plan, made->training);
    point.plan->not_run = std::move(made->not_run);
    return point;
  }
  if (!is_refusal(made.error())) {
    return std::move(made).error();
  }
  refusal_ = std::move(made).error();
  std::tie(point.code, point.reason) = cause_of(*refusal_);
  return point;
}

}  // namespace xrun::cli
