// `xrun bench`: the benchmarks are in a program of their own, which this command becomes.
#pragma once

#include "graph/base/result.h"

namespace xrun::cli {

// Replaces this process by the program xrun-bench from the folder of this program, with the same arguments and
// environment, so the exit code is that of xrun-bench. Returns only if this fails. REQUIRES: nothing has been printed
// to stdout.
//   argv  the arguments of `main`
Error become_bench(const char* const* argv);

}  // namespace xrun::cli
