// Row blocks of a checkpoint: a run whose text does not set `norm_rows` keeps the default that its checkpoint was
// trained with, even if the default has changed since.
#pragma once

#include <functional>
#include <string>

#include "graph/specs.h"
#include "runtime/cli/console.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

// Returns the checkpoint that a run with this `train` resumes from: a step directory or the parent of several.
using CheckpointPlace = std::function<std::string(const TrainSpec& train)>;

// The options, with `train.norm_rows` added if the run has a checkpoint that differs in model, data and training only
// by the earlier default; a note says so. Faults of the text are reported by the next reader of the file.
GlobalOptions with_stored_rows(const std::string& file, const GlobalOptions& options, const CheckpointPlace& place,
                               const Console& console);

}  // namespace xrun::cli
