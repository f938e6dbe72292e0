// Operators along one dimension of a sample: softmax, l2norm (same shape), mean, sum, max (the dimension goes, or stays
// as 1 with keep=true).
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> fiber_ops();

}  // namespace xrun::ops
