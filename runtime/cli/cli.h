// The command line as a whole: takes the arguments of `main` and returns the exit code.
#pragma once

#include "runtime/cli/options.h"

namespace xrun::cli {

// Parses the arguments, runs the subcommand and returns its exit code. Throws nothing. The codes are listed in
// docs/reference/command/overview.md, "Exit codes".
int run_command_line(int argc, const char* const* argv);

// Prints the exception that is being handled to stderr and returns its exit code. Also used when the process ends
// because nothing can catch the exception.
int tell_exception() noexcept;

// The subcommands, one file each.
int run_check(const GlobalOptions& options, const CheckArgs& args);
int run_fmt(const GlobalOptions& options, const FmtArgs& args);
int run_fix(const GlobalOptions& options, const FixArgs& args);
int run_lsp();
int run_explain(const GlobalOptions& options, const ExplainArgs& args);
int run_plan(const GlobalOptions& options, const PlanArgs& args);
int run_show(const GlobalOptions& options, const ShowArgs& args);
int run_train(const GlobalOptions& options, const TrainArgs& args);
int run_eval(const GlobalOptions& options, const EvalArgs& args);
int run_predict(const GlobalOptions& options, const PredictArgs& args);
int run_doctor(const GlobalOptions& options);

}  // namespace xrun::cli
