// The flags of the commands that plan without running: `plan` and `simulate`.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/cli/console/options.h"

namespace xrun::cli {

void add_plan_flags(CLI::App& command, PlanArgs& args);
void add_simulate_flags(CLI::App& command, SimulateArgs& args);

}  // namespace xrun::cli
