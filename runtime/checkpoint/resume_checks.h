// Checks of a checkpoint before a run resumes from it.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/store.h"
#include "runtime/train/events.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

// Refuses to resume from or to overwrite a checkpoint of another run; with `extend`, length and rate may differ.
// Errors: XG0701 with the differences.
Status check_digest(const CheckpointInfo& info, const CheckpointOptions& run);
// Checks that the checkpoint has `batch` samples per step. Errors: XG0710.
Status check_samples(const CheckpointInfo& info, const CheckpointOptions& run);
// XG0703: other kernels, in a deterministic run also other versions; XG0704: another number of samples.
std::vector<WarnEvent> resume_warnings(const Manifest& manifest, const CheckpointOptions& run);
// Adds XG0718 if there were residuals of `senders` senders, and `state` has another number of senders.
void add_sender_warning(const Manifest& manifest, int64_t senders, const TrainState& state,
                        std::vector<WarnEvent>& warnings);

// Adds XG0721 if the files `names` were restored from second copies.
void add_copy_warning(const CheckpointInfo& info, const std::vector<std::string>& names, const CheckpointOptions& run,
                      std::vector<WarnEvent>& warnings);

}  // namespace xrun::runtime
