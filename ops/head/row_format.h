// Converts rows of class weights and states between the formats in memory and f32 (RowFormat, graph/head_def.h). Narrow
// formats are rounded stochastically: a value becomes one of its two neighbours, the nearer one more often, so that the
// mean is the value and updates that are smaller than a step of the format are not lost. Source: Gupta et al., "Deep
// Learning with Limited Numerical Precision", ICML 2015.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/random.h"
#include "graph/head_def.h"

namespace xrun::ops {

// out[0, n) = the values of a row. `scale`: scale of an fp8 row.
void load_row(RowFormat format, const std::byte* row, float scale, int64_t n, float* out);

// Writes a row; element i is rounded with the draws at place i of `random`, on any thread. Returns the scale of an fp8
// row, a power of two with which its largest value just fits, else 1; NaN if a value is NaN or infinite.
float store_row(RowFormat format, const float* values, int64_t n, const RandomStream& random, std::byte* row);

// Like store_row, but without random numbers: each value is rounded to the nearest one of the format, ties away from 0.
// For rows that are rounded once and not in every step.
float store_nearest(RowFormat format, const float* values, int64_t n, std::byte* row);

}  // namespace xrun::ops
