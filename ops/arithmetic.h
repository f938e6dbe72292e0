// Sum, difference, product and quotient of two tensors, and a choice between two. Ranks are equal; a dimension is equal
// or
// 1. `add.sum` is the gradient of broadcasting.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> arithmetic_ops();

}  // namespace xrun::ops
