// Pooling of images: the largest or the mean of each k x k window. Cells outside the image do not count. H' = floor((H
// + 2 pad - k) / stride) + 1.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> pool_ops();

}  // namespace xrun::ops
