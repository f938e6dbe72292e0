// What vision transformers need around attention, on sequences x [N, T, D]: take(i) (one position), class_token (a
// trained position before the others) and position_embedding (a trained vector added to each position). Source:
// Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

std::span<const Op* const> sequence_ops();

}  // namespace xrun::ops
