// Verification sets that `eval --on FILE` names on the command line, without an entry in the model's text.
#pragma once

#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/model/planned.h"
#include "runtime/train/evaluation/inference.h"

namespace xrun::cli {

// For each name of `--on` that is a file and not a source: adds a source of pairs with this name to the data of the
// inference module, and returns how it is measured. The key is the name of the file without its ending, and a number if
// that name is taken. Errors: XG0903 the model has no output of features, or several and `--feature` names none of
// them; XG0906 a flag for such files without a file.
Result<std::vector<runtime::Measure>> add_pair_files(PlannedModel& planned, const EvalArgs& args);

}  // namespace xrun::cli
