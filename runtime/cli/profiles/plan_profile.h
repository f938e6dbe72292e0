// `xrun plan --layer-times FILE --stages N`: cuts a profile of layers that another program measured into stages.
#pragma once

#include "runtime/cli/console/console.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

/// Prints the cuts and returns the exit code. `args.file` is empty. Errors: XG0907 flags that a profile gives no
/// effect, or no number of stages; XG0602 more stages than layers; XG0401; XG0631.
Outcome<int> plan_profile(const GlobalOptions& options, const PlanArgs& args);

}  // namespace xrun::cli
