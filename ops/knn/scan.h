// Finds the few scores of a tile that are candidates.
#pragma once

#include <cstdint>

#include "graph/knn_layout.h"
#include "ops/isa.h"

namespace xrun::ops {

// Writes to `hits` the places row · 32 + column, ascending, of the scores that are at least the limit of their row or
// that of their column, and returns their number. Score (row, column) is at scores[row · stride + column]. A NaN is
// never found.
using KnnScan = int64_t (*)(const float* scores, int64_t stride, const float* row_limits, const float* column_limits,
                            int32_t* hits);

KnnScan knn_scan(Isa isa);

}  // namespace xrun::ops
