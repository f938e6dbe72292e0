// `xrun check --data`: opens every source and looks at samples all over it.
#pragma once

#include "runtime/cli/console.h"
#include "runtime/cli/load.h"

namespace xrun::cli {

// Prints a line a source. Gives 0 or the exit code of the first fault, which has been printed.
int check_data(const LoadedModel& model, const Console& console);

}  // namespace xrun::cli
