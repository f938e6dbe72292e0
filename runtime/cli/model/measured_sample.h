// The measured time of a training sample, for predicted steps with `--cost measured`.
#pragma once

#include "graph/base/units.h"
#include "graph/module.h"
#include "ops/facts/facts.h"

namespace xrun::cli {

// Returns the processor time to read and transform a sample of the source `train`: the time in `times` of a sample of
// equal data, or a measured time, which is added to `times`. Data is equal if the calls of the source and of all
// bindings and the number of samples are equal. Returns 0 if the data is not here or is not as the model says; commands
// report such faults when they open the headers of all sources.
Seconds measured_sample(const Module& module, ops::KernelTimes& times);

}  // namespace xrun::cli
