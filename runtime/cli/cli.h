// The command line as a whole: words in, exit code out.
#pragma once

#include "runtime/cli/options.h"

namespace xrun::cli {

// Parses the words and runs the subcommand; gives the exit code (docs/command.md, "Exit codes"). Throws nothing.
int run_command_line(int argc, const char* const* argv);

// Tells the exception that is being handled, on stderr in words, and gives its exit code. For the end of a process,
// too, that nobody can catch it in any more.
int tell_exception() noexcept;

// The subcommands, one file each.
int run_check(const GlobalOptions& options, const CheckArgs& args);
int run_plan(const GlobalOptions& options, const PlanArgs& args);
int run_show(const GlobalOptions& options, const ShowArgs& args);
int run_train(const GlobalOptions& options, const TrainArgs& args);
int run_eval(const GlobalOptions& options, const EvalArgs& args);
int run_predict(const GlobalOptions& options, const PredictArgs& args);
int run_doctor(const GlobalOptions& options);

}  // namespace xrun::cli
