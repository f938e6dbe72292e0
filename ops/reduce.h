// Operators that leave one element of each fiber (ops/fibers.h): mean, sum, max along a dimension, which goes, or stays
// as 1 with keep=true.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> reduce_ops();

}  // namespace xrun::ops
