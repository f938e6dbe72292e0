// Row blocks of a checkpoint: a run whose text leaves `norm_rows` open goes on with the number that its checkpoint was
// trained with, where the default was another one then.
#pragma once

#include <functional>
#include <string>

#include "graph/specs.h"
#include "runtime/cli/console.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

// Where a run that trains so finds its checkpoint: a step directory or the parent of several.
using CheckpointPlace = std::function<std::string(const TrainSpec& train)>;

// The options, with `train.norm_rows` where the run has a checkpoint of the same model, data and training but for an
// earlier default; a note says so. Faults of the text are left to who reads it next.
GlobalOptions with_stored_rows(const std::string& file, const GlobalOptions& options, const CheckpointPlace& place,
                               const Console& console);

}  // namespace xrun::cli
