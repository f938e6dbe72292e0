// The `synthetic` reader: samples are computed from counters, not stored. All output that mentions them calls them
// synthetic.
#pragma once

#include <memory>

#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Sample i has class i mod classes; its pixels are the prototype of the class, normal numbers of unit variance drawn
// from the class alone, plus `noise` times normal numbers drawn from (seed, sample): another seed gives new samples of
// the same classes.
// Fields `pixels` f32 [shape], `label`.
Result<std::unique_ptr<Reader>> open_synthetic(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
