// What `xrun plan` finds out of the data: sources are opened as far as their headers, no sample is read.
#pragma once

#include "graph/base/diagnostic.h"
#include "graph/base/result.h"
#include "runtime/cli/run_sources.h"

namespace xrun::cli {

struct DataHeaders {
  int64_t samples = 0;  // of an epoch; 0: not known
  DataMemory memory;
  Diagnostics warnings;  // sources that are not on this machine, and what is worth a word about the others
};

// Opens the sources that a run of the plan opens. Data that is not there is a warning, since plans are also made where
// no data is (docs/decisions/0011); errors are those that `check --data` and `train` give before they read a sample,
// XG0506, a curve that does not fit the run, and XG0214, graphs of classes that no step would use.
Result<DataHeaders> open_headers(const PlannedModel& planned);

}  // namespace xrun::cli
