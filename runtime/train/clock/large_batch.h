// Warns of a batch that is larger than its training source.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/base/result.h"
#include "graph/settings/specs.h"

namespace xrun::runtime {

// Returns the warning XG0417 if a step takes more samples than the source has, so that samples repeat within a step.
//   samples  samples in an epoch
std::optional<Error> warn_of_large_batch(const TrainSpec& train, int64_t samples);

}  // namespace xrun::runtime
