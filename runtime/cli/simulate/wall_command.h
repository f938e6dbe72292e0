// `xrun simulate --wall`: runs the training program of a model or of a plan file by the clock, and compares it with its
// simulation (docs/reference/command/simulate.md, "By the clock").
#pragma once

#include <string>

#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

// Checks the flags of `--wall`, without and with it. Errors: kUsage XG0641.
Status check_wall(const GlobalOptions& options, const SimulateArgs& args);

// Returns the report in the form of `--format`. Errors: those of planning and of reading a plan; XG0641 too many
// devices; XG0002 instructions that wait for one another; XG0803 too few threads. REQUIRES: check_wall.
Outcome<std::string> wall_report(const GlobalOptions& options, const SimulateArgs& args, const Console& console);

}  // namespace xrun::cli
