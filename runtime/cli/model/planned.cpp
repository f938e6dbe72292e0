// Tests: tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/model/planned.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <new>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/os/regular_file.h"
#include "ops/facts/facts.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/summary.h"
#include "runtime/cli/model/search_watch.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::cli {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The directory at which relative paths start. It is read once, so that a path always has the same absolute form.
struct WorkingDirectory {
  std::error_code error;
  std::filesystem::path path = std::filesystem::current_path(error);
};
const WorkingDirectory& working_directory() {
  static const WorkingDirectory once;
  return once;
}

// The absolute form of FILE or of FILE:NAME.
std::string absolute(const std::string& path) { return path.empty() ? "" : (working_directory().path / path).string(); }

// The form of a path in messages: relative if it is below the working directory, so that messages about a plan name
// files as messages about a model do.
std::string shown(const std::string& path) {
  const std::string below = std::filesystem::path(path).lexically_relative(working_directory().path).string();
  return below.empty() || below.starts_with("..") ? path : below;
}

// The flags that decide a plan, in the form in which the plan file keeps them.
Pairs plan_options(const std::string& path, const GlobalOptions& options) {
  Pairs pairs{{"file", absolute(path)}};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) {
      pairs.emplace_back(name, value);
    }
  };
  add("run", options.run);
  add("cluster", absolute(options.cluster));
  add("schedule", absolute(options.schedule));
  add("devices", options.devices > 0 ? std::to_string(options.devices) : "");
  add("threads", options.threads > 0 ? std::to_string(options.threads) : "");
  add("deterministic", options.deterministic ? "true" : "");
  add("cost", options.cost == "measured" ? options.cost : "");
  for (const auto& [name, value] : options.sets) {
    pairs.emplace_back("set " + name, value);
  }
  return pairs;
}

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
  if (const auto& error = working_directory().error) {
    if (error == std::errc::not_enough_memory) {
      throw std::bad_alloc();
    }
    exit = console.fail(world_error("XG0207",
                                    {"cannot read `{}`: the working directory is unknown: {}", path, error.message()},
                                    "run xrun in a directory that exists"));
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
  auto planned = read_model(shown(file), options, console, true, exit, phase);
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

std::string source_path(const std::string& path) {
  return path.starts_with("std/") ? path : (working_directory().path / path).lexically_normal().string();
}

GlobalOptions with_plan_options(GlobalOptions options, const Pairs& pairs, std::string& file) {
  const auto given = std::exchange(options.sets, {});
  const auto number = [](const std::string& text) {
    int value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  for (const auto& [name, value] : pairs) {
    if (name == "file") {
      file = value;
    } else if (name == "run") {
      options.run = options.run.empty() ? value : options.run;
    } else if (name == "cluster") {
      options.cluster = options.cluster.empty() ? value : options.cluster;
    } else if (name == "schedule") {
      options.schedule = options.schedule.empty() ? value : options.schedule;
    } else if (name == "devices") {
      options.devices = number(value);
    } else if (name == "threads") {
      options.threads = number(value);
    } else if (name == "deterministic") {
      options.deterministic = true;
    } else if (name.rfind("set ", 0) == 0) {
      options.sets.emplace_back(name.substr(4), value);
    }
  }
  options.sets.insert(options.sets.end(), given.begin(), given.end());
  return options;
}

std::string deciding_flag(const GlobalOptions& options) {
  return !options.sets.empty()        ? "--set"
         : options.devices > 0        ? "--devices"
         : options.threads > 0        ? "--threads"
         : options.deterministic      ? "--deterministic"
         : !options.run.empty()       ? "--run"
         : !options.cluster.empty()   ? "--cluster"
         : !options.schedule.empty()  ? "--schedule"
         : options.cost != "analytic" ? "--cost"
                                      : "";
}

bool is_plan_file(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".xplan") {
    return true;
  }
  const int file = open_regular(path);
  if (file < 0) {
    return false;
  }
  char head[8] = {};
  const ssize_t got = ::read(file, head, sizeof head);
  ::close(file);
  return got == sizeof head && std::string_view(head + 4, 4) == "XPLN";
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

namespace {

std::vector<runtime::Timing> predicted_timings(const planner::Program& program, const planner::ProgramTimes& times) {
  std::vector<runtime::Timing> timings;
  for (size_t i = 0; i < times.instructions.size(); ++i) {
    const planner::InstructionTime& one = times.instructions[i];
    // The members of an exchange end together. Each waits for the last of them before its data moves.
    const Seconds moving = std::max(one.start, one.end - program.instructions[i].predicted);
    timings.push_back({.begin = one.start, .end = one.end, .moving = moving, .moved = one.end});
  }
  return timings;
}

}  // namespace

runtime::StepPrediction predicted_step(const planner::Plan& plan) {
  return {plan.predicted.step, predicted_timings(plan.training, planner::times_of(plan.training, plan.machine))};
}

std::vector<runtime::SmallerStep> smaller_steps(const planner::Plan& plan) {
  std::vector<runtime::SmallerStep> steps;
  for (const planner::StepProgram& one : plan.smaller) {
    steps.push_back(
        {.units = one.units,
         .program = &one.program,
         .predicted = {one.step, predicted_timings(one.program, planner::times_of(one.program, plan.machine))}});
  }
  return steps;
}

Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const planner::Program& program, int rank,
                                                          const std::vector<int>& neighbours) {
  std::vector<int> of_host;  // numbers of workers of the devices of all ranks on these processors
  std::vector<int> threads;
  int first = 0;
  size_t before = 0;
  for (int device = 0; device < program.devices; ++device) {
    const int owner = program.rank_of(device);
    if (owner == rank && threads.empty()) {
      first = device;
      before = of_host.size();
    }
    if (owner == rank || std::ranges::find(neighbours, owner) != neighbours.end()) {
      of_host.push_back(program.threads[static_cast<size_t>(device)]);
    }
    if (owner == rank) {
      threads.push_back(of_host.back());
    }
  }
  const runtime::CpuTopology topology = runtime::read_cpu_topology();
  if (!topology.here) {
    return runtime::start_cpu_devices(threads, {}, first);
  }
  const auto places = runtime::place_devices(topology, of_host);
  return runtime::start_cpu_devices(
      threads, places.empty() ? places : std::vector(places.begin() + before, places.begin() + before + threads.size()),
      first);
}

Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info,
                                                       runtime::EventSink& events) {
  events.on(runtime::WorkEvent{.work = runtime::Work::kPrepare, .subject = "kernels and memory"});
  XRUN_ASSIGN(auto session, runtime::Session::create(planned.prepared.inference, planned.plan.inference, devices,
                                                     {.isa = planned.prepared.isa}));
  warn_if_interpreted(events);
  events.on(runtime::WorkEvent{.work = runtime::Work::kLoad, .subject = info.path});
  XRUN_TRY(runtime::load_checkpoint(info, session->state(), false, planned.model.file.run.moved));
  XRUN_TRY(session->weights_changed());
  return session;
}

}  // namespace xrun::cli
