// The first steps of several commands: load and check a file, then prepare its module for the planner.
#pragma once

#include <optional>
#include <string>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "lang/frontend.h"
#include "ops/isa.h"
#include "planner/machine.h"
#include "runtime/cli/console.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

struct LoadedModel {
  SourceMap sources;
  lang::CheckedFile file;
};

// Reads and checks the file and prints its diagnostics. Nothing after errors; `exit` is then the exit code. `texts`:
// the files by path, which are read instead of those on disk; null: from disk.
std::optional<LoadedModel> load_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool strict, int& exit, const lang::Texts* texts = nullptr,
                                      lang::Facts* facts = nullptr);

// Does the same without printing; nothing if there are errors.
std::optional<lang::CheckedFile> read_quietly(const std::string& path, const GlobalOptions& options,
                                              const lang::Texts* texts = nullptr);

// Diagnostics of the parts of a module that this build checks but cannot execute (XG0199), and of a model with too many
// operators (XG0198). Empty: `plan` accepts the module.
Diagnostics unfinished_parts(const LoadedModel& model, Severity severity);

// Prints why a module cannot be planned: it uses what this edition only checks, or it lacks a part.
//   needs_training  the command runs training: `data` and `train` must be there
// Returns 0 or the exit code.
int refuse_unfinished(const LoadedModel& model, const Console& console, bool needs_training);

struct PreparedModel {
  Module training;   // with backward part
  Module inference;  // forward only
  KernelFacts training_facts;
  KernelFacts inference_facts;
  planner::Machine machine;
  ops::Isa isa = ops::Isa::kAvx2;
};

// Runs the passes and collects the kernels' sizes, with --cost measured also their times; a note names the file with
// the times that were measured before.
Result<PreparedModel> prepare_model(const Module& module, const GlobalOptions& options, const Console& console);

}  // namespace xrun::cli
