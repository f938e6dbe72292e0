// The learning rate over a run, in units of TrainSpec::unit() samples: in steps, unless the batch grows.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "graph/rate_curve.h"
#include "graph/specs.h"

namespace xrun::runtime {

// The curve in units, with `samples` samples in an epoch. A piece without a span takes the units that the others leave.
Curve make_curve(const TrainSpec& train, int64_t samples);

// Checks, now that lengths are known, that the pieces cover the run, that each time of `steps` is reached, and that a
// growing batch reaches its last size before the end. Errors: kContent XG0506 with the gap, at the last piece, or with
// the time that is not reached, at its curve; XG0511.
Status check_curve(const TrainSpec& train, int64_t samples);

}  // namespace xrun::runtime
