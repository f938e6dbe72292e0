// Kernels of softmax_ce, its gradient, accuracy and topk on dense logits f32[N, ..., C] with labels i32[N, ...]. The
// result of a sample is the mean over its positions whose labels lie in 0..C-1. Other positions have gradient 0, and a
// sample without a label has loss and gradient 0, as in ops/head.h. The operators are in ops/head_ops.cpp.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// (logits, label) -> loss [N]: log-sum-exp(z) - (1 - e)·z_target - e·mean(z), z = scale · logits, e = smoothing.
Result<std::unique_ptr<Kernel>> make_dense_ce(const KernelSpec& spec);
// (logits, label, dloss [N]) -> [N, ..., C]: dloss / labels · scale · (softmax(z) - (1 - e)·[target] - e / C).
Result<std::unique_ptr<Kernel>> make_dense_ce_dx(const KernelSpec& spec);
// (logits, label) -> [N]: 1 if fewer than k logits are ahead of the label's; ties go to the lower class.
Result<std::unique_ptr<Kernel>> make_dense_accuracy(const KernelSpec& spec);
// (logits) -> classes i32 [N, k], logits [N, k], best first.
Result<std::unique_ptr<Kernel>> make_dense_topk(const KernelSpec& spec);

}  // namespace xrun::ops
