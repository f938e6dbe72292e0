// Losses that compare two tensors of one shape, one value a sample, f32[N]:
//   mse  mean of (x - target)²
//   bce  mean of max(z, 0) - z·target + log(1 + exp(-|z|)), z = logits; no gradient for the target
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> row_loss_ops();

}  // namespace xrun::ops
