// Self-attention over T positions with h heads of d = D / h numbers: [q k v] = x Wqkvᵀ + bqkv, per head
// o = softmax(q kᵀ / sqrt(d)) v, y = o Wprojᵀ + bproj. x, y [N, T, D]; Wqkv [3D, D]; Wproj [D, D].
// Scores [h, T, T] exist for one sample at a time, in f32; the backward pass makes them again from q and k.
// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

extern const Op kAttention;
extern const Op kAttentionGrad;  // of [q k v] from that of o

}  // namespace xrun::ops
