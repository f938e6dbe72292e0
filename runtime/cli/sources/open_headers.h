// Collects the facts about the data that `xrun plan` needs. It opens only headers and reads no samples.
#pragma once

#include "graph/base/diagnostic.h"
#include "graph/base/result.h"
#include "runtime/cli/sources/run_sources.h"

namespace xrun::cli {

struct DataHeaders {
  int64_t samples = 0;  // number of samples in an epoch; 0: not known
  DataMemory memory;
  Diagnostics warnings;  // warnings about missing sources, and those that opened sources have given
};

// Opens the sources that a run of the plan opens. Missing data is only a warning, since plans are also made on machines
// without the data (docs/decisions/0011). Errors: those that `check --data` and `train` report before they read a
// sample; XG0506 a curve does not fit the run; XG0214 no step would use a graph of nearest classes.
Result<DataHeaders> open_headers(const PlannedModel& planned);

}  // namespace xrun::cli
