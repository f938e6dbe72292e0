// prelu: x where x > 0, else slope · x, with one trained slope a channel (0.25 at first).
// Source: He et al., "Delving Deep into Rectifiers", ICCV 2015.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kPrelu;
extern const Op kPreluGrad;

}  // namespace xrun::ops
