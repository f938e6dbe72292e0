// Finds the few scores of a tile that are high enough to be candidates.
#pragma once

#include <cstdint>

#include "graph/layouts/knn_layout.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

// Writes to `hits` the places, row · 32 + column in ascending order, of the scores that reach the limit of their row or
// of their column. Returns the number of hits. The score of (row, column) is at scores[row · stride + column]. A NaN is
// never a hit.
using KnnScan = int64_t (*)(const float* scores, int64_t stride, const float* row_limits, const float* column_limits,
                            int32_t* hits);

KnnScan knn_scan(Isa isa);

}  // namespace xrun::ops
