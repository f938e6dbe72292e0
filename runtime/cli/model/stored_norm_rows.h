// The row blocks that a checkpoint was trained with. If the text of a run does not set `norm_rows`, the run keeps the
// default of its checkpoint, even if the default has changed since.
#pragma once

#include <functional>
#include <string>

#include "graph/settings/specs.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/console/options.h"

namespace xrun::cli {

// Returns the checkpoint that a run with this `train` resumes from: a step directory or the parent of several.
using CheckpointPlace = std::function<std::string(const TrainSpec& train)>;

// Returns the options, with `train.norm_rows` added if the run's checkpoint has the same model, data and training
// except for the earlier default; then prints a note about it. Faults of the text are not reported, since the file is
// read again later.
GlobalOptions with_stored_norm_rows(const std::string& file, const GlobalOptions& options, const CheckpointPlace& place,
                                    const Console& console);

}  // namespace xrun::cli
