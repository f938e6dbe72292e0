// The learning rate of a run as a curve over time. Time is measured in units of TrainSpec::unit() samples; a unit is a
// step unless the batch grows.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "graph/settings/rate_curve.h"
#include "graph/settings/specs.h"

namespace xrun::runtime {

// Makes the curve for an epoch of `samples` samples. A piece without a span covers the units that other pieces leave.
Curve make_curve(const TrainSpec& train, int64_t samples);

// Checks, now that the lengths of pieces are known, that they cover the run, that each time of `steps` is reached, and
// that a growing batch reaches its last size before the end of the run. Errors: kContent XG0506, at the last piece with
// the size of the gap, or at the curve with the time that is not reached; XG0511.
Status check_curve(const TrainSpec& train, int64_t samples);

}  // namespace xrun::runtime
