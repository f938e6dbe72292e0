// The time that one core takes to turn a training sample into a row of a batch, for predicted steps.
#pragma once

#include <cstdint>

#include "graph/base/units.h"
#include "graph/graph.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime {

// Fills rows on this thread, in the shuffled order and with the random draws of training, until 512 samples or 0.3 s
// of processor time are counted. Returns the mean processor time of a sample, without the first samples, which allocate
// memory. Broken samples do not count; returns 0 if no sample counts.
Seconds time_of_sample(const SampleRows& rows, const Graph& graph, uint64_t seed);

}  // namespace xrun::runtime
