// Convolution and its gradients. y[n, o, i, j] = sum over c, u, v of w[o, c, u, v] · x[n, c, s·i + d·u - p, s·j + d·v -
// p], zero outside; H' = floor((H + 2p - d(k - 1) - 1) / s) + 1. x [N, C, H, W], w [out, C / groups, k, k].
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kConv;
extern const Op kDwconv;  // one filter a channel: conv with groups = C
extern const Op kConvDx;
extern const Op kConvDw;

}  // namespace xrun::ops
