// Converts spans of training to steps: the length of a run, its curve, and the events due after a step.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "graph/optimizer_def.h"
#include "graph/specs.h"

namespace xrun::runtime {

// The number of steps of the whole run with `samples` samples an epoch, rounded up.
int64_t total_steps(const TrainSpec& train, int64_t samples);

// The learning rate over the run. A piece without a span takes the steps that the others leave.
Curve make_curve(const TrainSpec& train, int64_t samples);

// Whether the pieces cover the run, now that its length in steps is known. Errors: kContent XG0506 with the gap, at the
// last piece.
Status check_curve(const TrainSpec& train, int64_t samples);

// Whether something that happens every `every` is due when `done` steps are done: the first step at or after each
// multiple.
bool is_due(const TrainSpan& every, int64_t done, int64_t samples, int64_t batch);

}  // namespace xrun::runtime
