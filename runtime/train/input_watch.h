// A look at the first batch of a run: whether its inputs are what networks learn from.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/train/batch_source.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// XG0816 for each input of real numbers with a mean above 20 or below -20: networks are made for inputs around 0, and
// pixels of 0 to 255 that nobody scaled train badly without another sign. `batch` is in memory of the host, `rows`
// rows.
std::vector<WarnEvent> look_at_inputs(const Graph& graph, const BatchView& batch, int64_t rows);

}  // namespace xrun::runtime
