// Functions of one tensor, element by element: relu gelu silu sigmoid tanh exp log sqrt abs neg clamp erf sin cos acos
// power scale_shift, and the gradient of each as `<name>.grad`.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> pointwise_ops();

}  // namespace xrun::ops
