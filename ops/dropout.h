// Dropout: each element is 0 with probability p, else x / (1 - p). The draws are counters of (seed, step, position in
// the global batch, operator path, element in memory order), so no mask is kept and the gradient is the same operator.
// Source: Srivastava et al., "Dropout", JMLR 2014; counters: DETERMINISM 4.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kDropout;

}  // namespace xrun::ops
