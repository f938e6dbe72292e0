// The whole command line: the variables of all flags, the commands, and what they have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/cli.h"
#include "runtime/cli/commands/bench_flags.h"
#include "runtime/cli/commands/completions.h"
#include "runtime/cli/commands/data.h"
#include "runtime/cli/commands/data_preview.h"
#include "runtime/cli/commands/man_pages.h"
#include "runtime/cli/commands/new.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/console/usage.h"
#include "runtime/cli/convert/convert.h"
#include "runtime/cli/import/import.h"
#include "runtime/cli/job/restarts.h"

namespace xrun::cli {

// The variables that CLI11 fills. CLI11 keeps references to them, so they must live while the command line is parsed.
struct CommandLine {
  GlobalOptions global;
  std::vector<std::string> sets;
  std::string devices;
  NewArgs fresh;
  CheckArgs check;
  FmtArgs fmt;
  FixArgs fix;
  ExplainArgs explain;
  PlanArgs plan;
  SimulateArgs simulate;
  ShowArgs show;
  TrainArgs train;
  RestartArgs restarts;
  int64_t steps = -1;
  EvalArgs eval;
  PredictArgs predict;
  ExportArgs exported;
  ImportArgs imported;
  DataShowArgs data_show;
  DataIndexArgs data_index;
  ConvertArgs convert;
  PreviewArgs preview;
  CompletionsArgs completions;
  ManArgs man;
  BenchArgs bench;
  RunBenchmark run_benchmark = nullptr;  // null: `xrun bench` becomes xrun-bench
  std::function<Outcome<int>()> action;  // runs the command that the command line names
};

// The properties of a command on which the common part of the command line depends.
struct CommandTraits {
  std::string_view name;
  bool computes = true;     // the flags that decide what is computed, such as --set and --devices, have an effect
  bool writes_run = false;  // the command writes the output of a run, so -C has an effect
  bool once = true;         // if a launcher started several processes, only one of them runs the command (run_once)
};
const CommandTraits& traits_of(std::string_view command);
// The command of a parsed command line: "eval", or "data preview" if the subcommand has traits of its own.
std::string command_name(const CLI::App& app);

// The name of the group of flags that every command has.
constexpr const char* kCommonFlags = "Flags of every command";

// Adds the flags of every command, and all commands with their own flags. They keep references to `app` and `line`.
void add_global_flags(CLI::App& app, CommandLine& line);
void add_commands(CLI::App& app, CommandLine& line);

// Turns `--set a=b` into pairs and `--devices 2` into a number, and checks what CLI11 cannot check. REQUIRES: the
// command line is parsed.
Outcome<void> finish_globals(CommandLine& line, const CLI::App& app, const Words& words);

}  // namespace xrun::cli
