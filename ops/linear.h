// Dense layer and its gradients, on the last dimension: y[.., o] = sum over i of w[o, i] · x[.., i] + b[o].
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kLinear;
extern const Op kLinearDx;
extern const Op kLinearDw;
extern const Op kBiasGrad;  // sum over everything but the channels, for linear and conv

}  // namespace xrun::ops
