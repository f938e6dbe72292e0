// Converts rows of class weights and states between f32 and the formats in memory (RowFormat,
// graph/settings/head_def.h). Narrow formats are rounded stochastically: a value becomes one of its two neighbours in
// the format, the nearer one with the higher probability, so that the expected result is the value itself. Updates that
// are smaller than a step of the format are therefore not lost. Source: Gupta et al., "Deep Learning with Limited
// Numerical Precision", ICML 2015.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/random.h"
#include "graph/settings/head_def.h"

namespace xrun::ops {

// Reads the n values of a row into `out`. `scale` is the scale of an fp8 row.
void load_row(RowFormat format, const std::byte* row, float scale, int64_t n, float* out);

// Writes a row. The random bits of element i are at place i of `random`, so the result does not depend on the thread.
// Returns the scale of an fp8 row: the smallest power of two with which its largest value fits, or NaN if a value is
// NaN or infinite. Returns 1 for other formats.
float store_row(RowFormat format, const float* values, int64_t n, const RandomStream& random, std::byte* row);

// Like store_row, but rounds each value to the nearest value of the format, ties away from 0. Used for rows that are
// rounded once and not in every step.
float store_nearest(RowFormat format, const float* values, int64_t n, std::byte* row);

}  // namespace xrun::ops
