// The program xrun-bench: the command line of xrun with the benchmarks linked in. `xrun bench` becomes it
// (runtime/cli/commands/bench.h).
#include "runtime/bench/command/benchmark.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/library_faults.h"

namespace {

// Runs before the initialisers of other files, since these allocate memory and may already fail.
[[gnu::constructor(101)]] void begin() { xrun::cli::report_library_faults(); }

}  // namespace

int main(int argc, char** argv) {
  const int exit = xrun::cli::run_command_line(argc, argv, xrun::cli::run_benchmark);
  xrun::cli::expect_exit();
  return exit;
}
