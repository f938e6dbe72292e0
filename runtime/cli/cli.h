// The command line as a whole: takes the arguments of `main` and returns the exit code.
#pragma once

#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Parses the arguments, runs the subcommand and returns its exit code. Throws nothing. The codes are listed in
// docs/reference/command/overview.md, "Exit codes".
int run_command_line(int argc, const char* const* argv);

// Prints the exception that is being handled to stderr and returns its exit code. Also used when the process ends
// because nothing can catch the exception.
int report_exception() noexcept;

}  // namespace xrun::cli
