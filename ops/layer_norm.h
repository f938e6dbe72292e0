// Norms of the last dimension of features or a sequence, x [N, ..., D]:
//   layer_norm  y = weight · (x - mean) / sqrt(var + eps) + bias     Ba, Kiros, Hinton, "Layer Normalization", 2016
//   rms_norm    y = weight · x / sqrt(mean of squares + eps)         Zhang, Sennrich, "Root Mean Square Layer
//                                                                    Normalization", NeurIPS 2019
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kLayerNorm;
extern const Op kLayerNormGrad;
extern const Op kRmsNorm;
extern const Op kRmsNormGrad;

}  // namespace xrun::ops
