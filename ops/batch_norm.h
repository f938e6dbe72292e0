// Batch norm over a row block (ghost batch norm): y = weight · (x - mean) / sqrt(var + eps) + bias, per channel, with
// mean and (biased) variance over the samples and positions of one row block; relu(y) where it was absorbed. x [N, C,
// H, W] or [N, C]. Outside training the running statistics take the place of the block's. Source: Ioffe, Szegedy,
// "Batch Normalization", ICML 2015; running statistics: docs/determinism.md, "Batch norm".
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kBatchNorm;
extern const Op kBatchNormGrad;

}  // namespace xrun::ops
