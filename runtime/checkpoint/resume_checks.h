// Checks of a checkpoint before a run resumes from it.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/store.h"
#include "runtime/train/events/run_events.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

// Checks that a checkpoint belongs to this run, before the run resumes from the checkpoint or overwrites it. With
// CheckpointOptions::extend, the length, the learning rate and the numbers of classes may differ. Errors: XG0701 with
// the differences.
Status check_digest(const CheckpointInfo& info, const CheckpointOptions& run);
// Checks that the number of samples in the manifest fits the number of steps. Errors: XG0710; XG0704 the batch size
// grows during the run, and the training data had another number of samples.
Status check_samples(const CheckpointInfo& info, const CheckpointOptions& run);
// Returns the warnings of a run that resumes. XG0703: the checkpoint was written with other kernels, or in a
// deterministic run with other versions of libraries; XG0704: the training data had another number of samples.
std::vector<WarnEvent> resume_warnings(const Manifest& manifest, const CheckpointOptions& run);
// Adds the warning XG0718 if the checkpoint has residuals of `senders` senders and `state` has another number of
// senders.
void add_sender_warning(const Manifest& manifest, int64_t senders, const TrainState& state,
                        std::vector<WarnEvent>& warnings);

// Adds the warning XG0721 if `names`, the files that were restored from second copies, is not empty.
void add_copy_warning(const CheckpointInfo& info, const std::vector<std::string>& names, const CheckpointOptions& run,
                      std::vector<WarnEvent>& warnings);

}  // namespace xrun::runtime
