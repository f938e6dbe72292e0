// Kernels of attention.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// Makes the kernel of the forward pass. Inputs: x, the weight and bias that give [q k v], the weight and bias of the
// projection, and, with `relative`, the table of trained biases (BiasBody, ops/attention/attention_scores.h).
Result<std::unique_ptr<Kernel>> make_attention(const KernelSpec& spec);
// Makes the kernel of the gradient. Inputs: [q k v], the gradient of o, and, with `relative`, the table of trained
// biases; the gradient of the table is then the second output.
Result<std::unique_ptr<Kernel>> make_attention_grad(const KernelSpec& spec);

}  // namespace xrun::ops
