// Operators of edition 1 that can be checked and counted but not run yet: signature, shapes and parameters, no kernels.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> later_ops();

}  // namespace xrun::ops
