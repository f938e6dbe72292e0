// Operators that move elements and compute nothing: flatten reshape transpose concat slice pad.
// The logical order of an image is (C, H, W), whatever its memory.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> layout_ops();

}  // namespace xrun::ops
