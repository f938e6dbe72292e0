// The command `xrun simulate` (docs/reference/command/simulate.md).
#pragma once

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

Outcome<int> run_simulate(const GlobalOptions& options, const SimulateArgs& args);

}  // namespace xrun::cli
