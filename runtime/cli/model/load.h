// The first steps of several commands: load and check a file, then prepare its module for the planner.
#pragma once

#include <optional>
#include <string>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "lang/frontend.h"
#include "ops/facts/facts.h"
#include "ops/simd/isa.h"
#include "planner/program/machine.h"
#include "planner/program/plan.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/model/machine_gpus.h"

namespace xrun::cli {

struct LoadedModel {
  SourceMap sources;
  lang::CheckedFile file;
};

// Reads and checks the file, and prints its warnings. If there are errors, the failure also contains the warnings.
//   strict  warnings are errors
//   texts   file contents by path, which are used instead of the disk; null: all files are read from disk
Outcome<LoadedModel> load_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                bool strict, const lang::Texts* texts = nullptr, lang::Facts* facts = nullptr);

// Does the same without printing warnings. Returns nullopt if there are errors.
std::optional<lang::CheckedFile> read_quietly(const std::string& path, const GlobalOptions& options,
                                              const lang::Texts* texts = nullptr);

// Diagnostics for parts of a module that this build checks but cannot execute (XG0199), and for a model with too many
// operators (XG0198). If there are no diagnostics, `plan` accepts the module.
Diagnostics unfinished_parts(const LoadedModel& model, Severity severity);

// Checks that a module can be planned: it has no parts that this build only checks (XG0199), and lacks no declaration.
//   needs_training  the command trains, so the module needs `data` and `train`
Outcome<void> check_complete(const LoadedModel& model, bool needs_training);

struct PreparedModel {
  Module training;   // includes the backward part
  Module inference;  // only the forward part
  KernelFacts training_facts;
  KernelFacts inference_facts;
  std::optional<planner::UsedTimes> layer_times;  // the user's times in `training_facts`
  planner::Machine machine;
  std::optional<MachineGpus> gpus;                 // the devices, if the flags name GPUs of this machine
  std::optional<GpuDef> device;                    // the devices, if the cluster states their figures
  std::shared_ptr<const Calibration> calibration;  // null: the cluster has none
  ops::Isa isa = ops::Isa::kAvx2;
};

// Returns the facts of the kernels of a prepared module on the devices of `prepared`: on GPUs, or on processors with an
// instruction set. `times` are those of the processor's kernels; null: times come from formulas.
Result<KernelFacts> kernel_facts(const Module& module, bool training, const PreparedModel& prepared,
                                 ops::KernelTimes* times = nullptr, const ops::TimedThreads& threads = {});

// Runs the passes and collects the sizes of the kernels; with --cost measured, also their times. A note names the file
// from which times of earlier runs were read, or says that calls were timed on fewer threads than the plan has. With
// `options.layer_times`, the times of that file replace those of its layers (planner/profiles/given_times.h). Errors:
// also XG0401, XG0632, XG0636 for flags that do not go with GPUs, and those of find_gpus.
//   figures  those of the module's cluster
Result<PreparedModel> prepare_model(const Module& module, const ClusterFigures& figures, const GlobalOptions& options,
                                    const Console& console);

// Returns what the plan keeps of its calibration, "AMD EPYC 9454, avx512"; empty if the cluster has none.
std::string calibration_text(const Module& module, const PreparedModel& prepared);
// Returns a warning (XG0637) if the calibration of the cluster is that of another processor or instruction set than
// this machine's.
std::optional<Error> other_calibration(const Module& module, const PreparedModel& prepared);

// Returns `known` for other settings of `cluster` and `schedule` and another number of devices: the passes and the
// facts do not depend on them, unless the facts were measured. REQUIRES: `module` otherwise equals the one of `known`,
// and has the same kind of devices; the facts of `known` were not measured. Errors: XG0636, XG0832.
Result<PreparedModel> prepare_again(PreparedModel known, const Module& module, const GlobalOptions& options);

}  // namespace xrun::cli
