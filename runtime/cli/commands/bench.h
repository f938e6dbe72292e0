// `xrun bench`: the benchmarks are in a program of their own, which this command becomes.
#pragma once

#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Replaces this process by the program xrun-bench from the folder of this program, with the same arguments and
// environment, so the exit code is that of xrun-bench. Returns only if this fails: prints the error and returns the
// exit code 4. REQUIRES: nothing has been printed to stdout.
//   argv  the arguments of `main`
int become_bench(const GlobalOptions& options, const char* const* argv);

}  // namespace xrun::cli
