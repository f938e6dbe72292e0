// Classifier heads, the losses and metrics that read their logits, and the same losses and metrics on dense logits.
// Heads give sharded[N, classes]: the planner makes a head pass of a head with its loss and metrics, and ops/head.h
// runs it. On dense logits [N, C] softmax_ce, accuracy and topk are ordinary row-wise operators with kernels of their
// own.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

// classifier cosine_classifier softmax_ce softmax_ce.dx arcface cosface combined_margin accuracy topk
std::span<const Op* const> head_ops();

}  // namespace xrun::ops
