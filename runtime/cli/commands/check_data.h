// `xrun check --data`: opens every source and decodes samples spread evenly over it.
#pragma once

#include "runtime/cli/console/console.h"
#include "runtime/cli/model/load.h"

namespace xrun::cli {

// Prints all faults, and a line for each source that opens. Returns 0, or the exit code of the first fault.
int check_data(const LoadedModel& model, const Console& console);

}  // namespace xrun::cli
