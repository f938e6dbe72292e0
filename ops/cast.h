// Operators that keep the shape and every value but for rounding: stop_gradient, cast (put in by mixed precision), and
// fill (a constant in the shape of its input, where differentiation starts).
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> cast_ops();

}  // namespace xrun::ops
