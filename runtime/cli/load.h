// What several commands begin with: a file becomes a checked module, and a module becomes what a planner is given.
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

// Reads, checks and reports. Nothing after errors, which have been printed; `exit` is then the exit code. `texts`: the
// files by path, where not those of the disk are meant.
std::optional<LoadedModel> load_model(const std::string& path, const GlobalOptions& options, const Console& console,
                                      bool strict, int& exit, const lang::Texts* texts = nullptr);

// The same without a word: nothing where there are errors.
std::optional<lang::CheckedFile> read_quietly(const std::string& path, const GlobalOptions& options,
                                              const lang::Texts* texts = nullptr);

// What this build checks but does not carry out: parts of the model (XG0199), and a model of too many operators
// (XG0198). Empty: `plan` does not refuse it for that.
Diagnostics unfinished_parts(const LoadedModel& model, Severity severity);

// Refuses, with the diagnostics, a module that uses what this edition only checks, or that lacks a part.
//   needs_training  the command runs training: `data` and `train` must be there
// Gives 0 or the exit code.
int refuse_unfinished(const LoadedModel& model, const Console& console, bool needs_training);

struct PreparedModel {
  Module training;   // with backward part
  Module inference;  // forward only
  KernelFacts training_facts;
  KernelFacts inference_facts;
  planner::Machine machine;
  ops::Isa isa = ops::Isa::kAvx2;
};

// Runs the passes and asks the kernels for their sizes (and times, with --cost measured; a note says where those are
// from that were measured before).
Result<PreparedModel> prepare_model(const Module& module, const GlobalOptions& options, const Console& console);

}  // namespace xrun::cli
