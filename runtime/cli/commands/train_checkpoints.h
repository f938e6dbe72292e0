// The checkpoints of a training run: their directory, the options of their store, and the space that they take.
#pragma once

#include <string>

#include "runtime/checkpoint/store.h"
#include "runtime/cli/job/job.h"
#include "runtime/cli/model/planned.h"

namespace xrun::cli {

std::string checkpoint_directory(const GlobalOptions& options, const TrainSpec& train);

// The options of the run's checkpoints. REQUIRES: `options` and `job` outlive the store.
//   samples  number of samples of the training source
runtime::CheckpointOptions store_options(const PlannedModel& planned, const GlobalOptions& options,
                                         const TrainArgs& args, const Job& job, int64_t samples);

// Checks that the disk of the checkpoint directory has space for the class rows that are kept in files.
Status check_disk(const PlannedModel& planned, const std::string& directory, int64_t samples);

// The flags of this run that must be left out of the command that continues from its checkpoints.
std::string flags_of_one_start(const TrainArgs& args);

}  // namespace xrun::cli
