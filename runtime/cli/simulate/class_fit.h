// How many classes fit: the answer of `xrun plan --fit classes` and of `xrun simulate --fit classes`.
#pragma once

#include <string>

#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

// Returns the report, as JSON or as text. `by_forms`: also for settings that GPUs cannot run yet. Errors: also those of
// fit_classes, and of check_gpus without `by_forms`.
Outcome<std::string> class_fit_report(const std::string& file, const GlobalOptions& options, const Console& console,
                                      bool by_forms);

}  // namespace xrun::cli
