// The command line as a whole: takes the arguments of `main` and returns the exit code.
#pragma once

#include <string_view>

#include "runtime/cli/console/options.h"

namespace xrun::cli {

struct BenchArgs;

// Runs the benchmark with this name, an entry of benchmarks(), and returns the exit code.
using RunBenchmark = int (*)(const GlobalOptions& options, std::string_view name, const BenchArgs& args);

// Parses the arguments, runs the subcommand and returns its exit code. Throws nothing. The codes are listed in
// docs/reference/command/overview.md, "Exit codes".
//   run_benchmark  called for `xrun bench`; null: the process becomes xrun-bench
int run_command_line(int argc, const char* const* argv, RunBenchmark run_benchmark = nullptr);

// Prints the exception that is being handled to stderr and returns its exit code. Also used when the process ends
// because nothing can catch the exception.
int report_exception() noexcept;

}  // namespace xrun::cli
