// The mean of all positions of each channel of an image.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kGlobalAvgPool;
extern const Op kGlobalAvgPoolGrad;

}  // namespace xrun::ops
