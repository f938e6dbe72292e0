// Kernels of softmax_ce, its gradient, accuracy and topk on dense logits f32[N, ..., C] with labels i32[N, ...]. The
// result of a sample is the mean over its positions whose labels lie in 0..C-1. Other positions have gradient 0, and a
// sample without a label has loss and gradient 0, as in ops/head/head.h. The operators are in ops/head/head_ops.cpp.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// Inputs (logits, label), output loss [N]: log-sum-exp(z) - (1 - e)·z_target - e·mean(z), with z = scale · logits and e
// = smoothing.
Result<std::unique_ptr<Kernel>> make_dense_ce(const KernelSpec& spec);
// Inputs (logits, label, dloss [N]), output [N, ..., C]: the gradient of the logits, dloss / labels · scale ·
// (softmax(z) - (1 - e)·[target] - e / C). `labels` is the number of positions of the sample that have a label.
Result<std::unique_ptr<Kernel>> make_dense_ce_dx(const KernelSpec& spec);
// Inputs (logits, label), output [N]: 1 if the label is among the k largest logits, else 0. Of equal logits, the lower
// class ranks first.
Result<std::unique_ptr<Kernel>> make_dense_accuracy(const KernelSpec& spec);
// Inputs (logits), outputs classes i32 [N, k] and their logits [N, k], best first.
Result<std::unique_ptr<Kernel>> make_dense_topk(const KernelSpec& spec);

}  // namespace xrun::ops
