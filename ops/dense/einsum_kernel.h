// The kernel of products of two tensors: matmul, einsum and their gradients.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// Makes the kernel. Inputs: two activations, or an activation and a parameter. If the result has no batch, it is an
// accumulator to which the kernel adds.
Result<std::unique_ptr<Kernel>> make_product(const KernelSpec& spec);

}  // namespace xrun::ops
