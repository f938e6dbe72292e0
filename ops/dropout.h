// Dropout: each element is 0 with probability p, else x / (1 - p). The draws are counters of (seed, step, position in
// the global batch, operator path, element in memory order), so no mask is kept and the gradient is the same operator.
// drop_path draws once a sample and drops all of it: the branch of a residual block (Huang et al., "Deep Networks with
// Stochastic Depth", ECCV 2016).
// Source: Srivastava et al., "Dropout", JMLR 2014; counters: docs/determinism.md, "Random numbers".
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kDropout;
extern const Op kDropPath;

}  // namespace xrun::ops
