// The `synthetic` reader: samples are computed from random numbers, not stored. All output about such samples calls
// them synthetic.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Sample i has class i mod classes. Its pixels are the prototype of the class (normal numbers of unit variance that
// depend only on the class) plus `noise` times normal numbers that depend on (seed, sample): another seed gives new
// samples of the same classes.
// Fields `pixels` f32 [shape], `label`.
Result<std::unique_ptr<Reader>> open_synthetic(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
