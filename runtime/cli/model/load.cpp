// Tests: tests/runtime/cli/commands/command_test.cpp, tests/runtime/data/data_models_test.cpp
#include "runtime/cli/model/load.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/sha256.h"
#include "graph/passes/pipeline.h"
#include "ops/facts/gpu_facts.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "planner/cost/calibrated_times.h"
#include "planner/planner.h"
#include "planner/profiles/given_times.h"
#include "runtime/cli/console/device_flag.h"
#include "runtime/cli/model/kernel_times.h"
#include "runtime/cli/model/measured_sample.h"
#include "runtime/cli/model/model_text.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/device/host.h"
#include "runtime/formats/files.h"

namespace xrun::cli {
namespace {

// Limits of the operators and steps to which a file may expand. Memory would allow more: a model near these limits has
// twenty times the operators that a plan may have, and takes some seconds and half a GiB.
constexpr int64_t kMostNodes = 1'000'000;
constexpr int64_t kMostSteps = 16'000'000;

// `texts`: file contents by path; null: all files are read from disk.
std::optional<lang::CheckedFile> load_file(const std::string& path, const GlobalOptions& options, bool strict,
                                           const lang::Texts* texts, SourceMap& sources, Diagnostics& diagnostics,
                                           lang::Facts* facts = nullptr) {
  const lang::FrontendOptions wishes{.ops = &ops::registry(),
                                     .norm_of = ops::norm_group,
                                     .run = options.run,
                                     .sets = options.sets,
                                     .cluster = options.cluster,
                                     .schedule = options.schedule,
                                     .facts = facts,
                                     .is_stored = texts != nullptr,
                                     .f32_inputs = options.f32_inputs,
                                     .strict = strict,
                                     .max_nodes = kMostNodes,
                                     .max_steps = kMostSteps};
  return texts == nullptr ? lang::load(path, sources, diagnostics, wishes)
                          : lang::load_texts(path, *texts, sources, diagnostics, wishes);
}

Status collect_facts(PreparedModel& prepared, ops::KernelTimes* times, const ops::TimedThreads& threads = {}) {
  XRUN_ASSIGN(prepared.training_facts, kernel_facts(prepared.training, true, prepared, times, threads));
  XRUN_ASSIGN(prepared.inference_facts, kernel_facts(prepared.inference, false, prepared, times, threads));
  prepared.machine.filling_workers = prepared.training_facts.filling_workers;
  return {};
}

// Returns the threads that make a call while it is timed: as many as the workers of a node that compute at the same
// time, but not more than this machine has cores. Their operands may use a quarter of the free memory.
ops::TimedThreads timed_threads(const planner::Machine& machine, const runtime::Host& host) {
  return {.count = std::min(machine.workers_of_node(), host.cores), .memory = host.memory_free / 4};
}

// Says that some calls were timed on fewer threads than the workers that will make them.
void note_fewer_threads(const KernelFacts& facts, const ops::TimedThreads& threads, const Console& console) {
  if (facts.threads < threads.count && !console.json()) {
    console.note(
        fmt::format("note: some operators were timed on {} of {} threads, since the operands of all threads "
                    "need more than {}\n",
                    facts.threads, threads.count, format_bytes(threads.memory)));
  }
}

// Collects the facts with measured times. Times of earlier runs are read from their file, and new times are added to
// it.
Status collect_measured_facts(PreparedModel& prepared, const Module& module, const runtime::Host& host,
                              const Console& console) {
  const std::string origin = runtime::times_origin(prepared.isa, host.cpu);
  const ops::TimedThreads threads = timed_threads(prepared.machine, host);
  const std::string path = runtime::kernel_times_path(origin);
  ops::KernelTimes times = runtime::load_kernel_times(path, origin);
  XRUN_TRY(collect_facts(prepared, &times, threads));
  note_fewer_threads(prepared.training_facts, threads, console);
  prepared.training_facts.sample = measured_sample(module, times);
  const auto count = [&](bool known) {
    return std::ranges::count_if(times,
                                 [&](const auto& entry) { return entry.second.used && entry.second.known == known; });
  };
  if (count(true) > 0 && !console.json()) {
    console.note(fmt::format("note: {} of {} measured times are from {}; remove it to measure again\n", count(true),
                             count(true) + count(false), path));
  }
  if (count(false) > 0) {
    runtime::store_kernel_times(path, origin, std::move(times));
  }
  return {};
}

// Puts the user's times of layers into the facts of training.
Result<planner::UsedTimes> read_layer_times(const std::string& path, PreparedModel& prepared) {
  constexpr Bytes kMostBytes = 16 * kMiB;
  XRUN_ASSIGN(const auto bytes, runtime::read_file(path, kMostBytes + 1));
  if (std::ssize(bytes) > kMostBytes) {
    return content_error("XG0632", {"{} has more than 16 MiB", path},
                         "name a file with the times of layers (xrun explain XG0632)");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  XRUN_ASSIGN(const planner::LayerTimes times, planner::parse_layer_times(text, path));
  XRUN_ASSIGN(planner::UsedTimes used, planner::use_layer_times(times, prepared.training, prepared.training_facts));
  used.file = source_path(path);
  used.sha256 = sha256_hex(text);
  return used;
}

// Rejects flags that are about processors, or that ask for more GPUs than the cluster has. GPUs of this machine have
// their own check (use_gpus).
Status check_flags_of_gpus(const ClusterSpec& cluster, const GlobalOptions& options) {
  if (cluster.gpu.empty() || options.gpus) {
    return {};
  }
  const std::string flag = options.threads > 0 ? "--threads" : options.cost == "measured" ? "--cost measured" : "";
  if (!flag.empty()) {
    return usage_error("XG0636",
                       {"`{}` is about the processors of this machine, but the devices are {} GPUs", flag, cluster.gpu},
                       fmt::format("leave {} out, or leave `gpu` out of the cluster", flag));
  }
  const int64_t all = cluster.nodes * cluster.gpus;
  if (options.devices == 0 && all > kMostDevices) {
    return usage_error("XG0636", {"the cluster has {} GPUs, and a plan at most {} devices", all, kMostDevices},
                       fmt::format("plan for some of them: --devices {}", kMostDevices));
  }
  if (options.devices > all) {
    return usage_error("XG0636", {"`--devices {}` asks for more GPUs than the {} of the cluster", options.devices, all},
                       fmt::format("give at most --devices {}, or more `gpus`", all));
  }
  return {};
}

// Sets the machine of a model. Errors: XG0832.
Status set_machine(PreparedModel& prepared, const ClusterSpec& cluster, const GlobalOptions& options,
                   const runtime::Host& host) {
  const bool one = options.cores == 0;
  prepared.machine = planner::make_machine(cluster,
                                           {.devices = options.devices,
                                            .threads = options.threads,
                                            .ranks = options.ranks,
                                            .rank_nodes = options.rank_nodes,
                                            .node_memory = options.node_memory,
                                            .network = options.network,
                                            .gpu = prepared.device},
                                           one ? host.cores : options.cores, one ? host.memory_free : options.memory);
  if (prepared.gpus) {
    use_gpus(*prepared.gpus, prepared.machine);
  }
  if (prepared.machine.devices < prepared.machine.ranks) {
    const int nodes = prepared.machine.ranks;
    return usage_error("XG0832",
                       {"{} {} need a device each, and `--devices` gives {}", nodes,
                        options.ranks > 1 ? "ranks" : "nodes of the cluster", prepared.machine.devices},
                       fmt::format("give at least --devices {}", nodes));
  }
  return {};
}

}  // namespace

Outcome<LoadedModel> load_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                bool strict, const lang::Texts* texts, lang::Facts* facts) {
  if (const auto fault = texts == nullptr ? find_fault(path) : std::nullopt) {
    return *fault;
  }
  LoadedModel model;
  Diagnostics diagnostics;
  auto file = load_file(path, options, strict, texts, model.sources, diagnostics, facts);
  const bool warned = strict && !diagnostics.all().empty();
  if (!file || diagnostics.has_errors() || warned) {
    return Failure(std::move(diagnostics), std::move(model.sources));
  }
  console.report(diagnostics, model.sources);
  model.file = std::move(*file);
  if (options.deterministic) {
    model.file.module.train.deterministic = true;
  }
  return model;
}

std::optional<lang::CheckedFile> read_quietly(const std::string& path, const GlobalOptions& options,
                                              const lang::Texts* texts) {
  SourceMap sources;
  Diagnostics diagnostics;
  const bool absent = texts == nullptr && find_fault(path).has_value();
  return absent ? std::nullopt : load_file(path, options, false, texts, sources, diagnostics);
}

Diagnostics unfinished_parts(const LoadedModel& model, Severity severity) {
  Diagnostics parts;
  for (Diagnostic diagnostic : model.file.module.not_yet) {
    diagnostic.severity = severity;
    parts.add(std::move(diagnostic));
  }
  if (const Status size = planner::check_size(model.file.module, false); !size.ok()) {
    Diagnostic diagnostic = diagnostic_of(size.error());
    diagnostic.severity = severity;
    parts.add(std::move(diagnostic));
  }
  return parts;
}

Outcome<void> check_complete(const LoadedModel& model, bool needs_training) {
  const Module& module = model.file.module;
  if (Diagnostics later = unfinished_parts(model, Severity::kError); later.has_errors()) {
    return Failure(std::move(later), model.sources);
  }
  const std::string path = model.sources.size() > 0 ? model.sources.path(0) : "the file";
  if (module.model.empty()) {
    return content_error("XG0221", path + " has no `model`", "declare one: model name { ... }");
  }
  if (needs_training && !module.has_train) {
    return content_error("XG0222", path + " has no `train`", "say how to train: train name { ... }");
  }
  if (needs_training && !module.has_data) {
    return content_error("XG0223", path + " has no `data`", "say what to train on: data name { ... }");
  }
  return {};
}

Result<KernelFacts> kernel_facts(const Module& module, bool training, const PreparedModel& prepared,
                                 ops::KernelTimes* times, const ops::TimedThreads& threads) {
  const TrainSpec& train = module.train;
  const GpuDef* gpu = prepared.gpus     ? &prepared.gpus->figures
                      : prepared.device ? &*prepared.device
                                        : find_gpu(module.cluster.gpu);
  if (gpu != nullptr) {
    return ops::gpu_facts(module.graph, train.norm_rows, training, train.deterministic, *gpu);
  }
  XRUN_ASSIGN(KernelFacts facts, ops::collect_facts(module.graph, train.norm_rows, training, prepared.isa,
                                                    train.deterministic, times, threads));
  if (prepared.calibration != nullptr) {
    planner::use_calibration(prepared.calibration, module, prepared.machine.workers_of_node(), facts);
  }
  return facts;
}

Result<PreparedModel> prepare_model(const Module& module, const ClusterFigures& figures, const GlobalOptions& options,
                                    const Console& console) {
  PreparedModel prepared;
  XRUN_TRY(check_flags_of_gpus(module.cluster, options));
  XRUN_ASSIGN(prepared.gpus, find_gpus(options, module.cluster, console));
  XRUN_TRY(planner::check_size(module, false));
  XRUN_ASSIGN(prepared.isa, ops::choose_isa());
  XRUN_ASSIGN(prepared.training, prepare(module, ops::registry(), {.training = true}));
  XRUN_TRY(planner::check_size(prepared.training, true));
  XRUN_ASSIGN(prepared.inference, prepare(module, ops::registry(), {.training = false}));
  if (prepared.gpus) {
    prepared.training.cluster.gpu = prepared.inference.cluster.gpu = prepared.gpus->figures.name;
  }
  const runtime::Host host = runtime::detect_host();
  prepared.device = prepared.gpus ? std::nullopt : figures.device;
  if (figures.calibration && !prepared.gpus) {
    prepared.calibration = std::make_shared<const Calibration>(*figures.calibration);
  }
  XRUN_TRY(set_machine(prepared, module.cluster, options, host));
  XRUN_TRY(options.cost == "measured" ? collect_measured_facts(prepared, module, host, console)
                                      : collect_facts(prepared, nullptr));
  if (!options.layer_times.empty()) {
    XRUN_ASSIGN(prepared.layer_times, read_layer_times(options.layer_times, prepared));
  }
  return prepared;
}

std::string calibration_text(const Module& module, const PreparedModel& prepared) {
  if (prepared.calibration == nullptr) {
    return "";
  }
  const std::string& cpu = module.cluster.cpu;
  return fmt::format("{}, {}", cpu.empty() ? "a processor without a name" : cpu, prepared.calibration->instructions);
}

std::optional<Error> other_calibration(const Module& module, const PreparedModel& prepared) {
  if (prepared.calibration == nullptr) {
    return std::nullopt;
  }
  const std::string cpu = runtime::detect_host().cpu;
  const std::string_view isa = ops::name_of(prepared.isa);
  if (module.cluster.cpu == cpu && prepared.calibration->instructions == isa) {
    return std::nullopt;
  }
  return content_error("XG0637",
                       {"predicted times come from a calibration of {}, but this machine is {}, {}",
                        calibration_text(module, prepared), cpu, isa},
                       "measure this machine: xrun bench --calibrate -o here.xgraph");
}

Result<PreparedModel> prepare_again(PreparedModel known, const Module& module, const GlobalOptions& options) {
  XRUN_TRY(check_flags_of_gpus(module.cluster, options));
  for (Module* prepared : {&known.training, &known.inference}) {
    prepared->cluster = module.cluster;
    prepared->schedule = module.schedule;
  }
  XRUN_TRY(set_machine(known, module.cluster, options, runtime::detect_host()));
  known.machine.filling_workers = known.training_facts.filling_workers;
  return known;
}

}  // namespace xrun::cli
