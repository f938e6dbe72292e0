// Checks of a checkpoint before a run goes on from it.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/store.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// A checkpoint of another run is neither gone on from nor written over. Errors: XG0701 with what differs.
Status check_digest(const CheckpointInfo& info, const CheckpointOptions& run);
// The batches of a run are of one size. Errors: XG0710.
Status check_samples(const CheckpointInfo& info, const CheckpointOptions& run);
// XG0703 other kernels, in a deterministic run also other versions; XG0704 another number of samples.
std::vector<WarnEvent> resume_warnings(const Manifest& manifest, const CheckpointOptions& run);

}  // namespace xrun::runtime
