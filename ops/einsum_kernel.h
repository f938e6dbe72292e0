// The kernel of products of two tensors: matmul, einsum and their gradients.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// inputs: two activations, or an activation and a parameter; a result without a batch is an accumulator.
Result<std::unique_ptr<Kernel>> make_product(const KernelSpec& spec);

}  // namespace xrun::ops
