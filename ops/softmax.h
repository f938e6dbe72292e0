// Operators that scale each fiber (ops/fibers.h) by what it holds: softmax and l2norm, shape to same shape.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> softmax_ops();

}  // namespace xrun::ops
