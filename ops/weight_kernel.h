// Kernels of operators that apply a weight (conv, linear and their gradients) over oneDNN, in f32 or bf16.
#pragma once

#include "ops/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// The dtype that oneDNN computes in: bf16 activations are widened to f32 where the processor has no bf16 units worth
// using (isa.cpp); operands are rounded to bf16 all the same.
DType compute_dtype(const KernelSpec& spec);

// Rows that `use` below is made for: all of the block, or, where activations are widened, the most rows (a divisor of
// the block) whose widened activations stay in the second-level cache. A pure function of the spec.
int64_t rows_of_call(const KernelSpec& spec);

// `use` is made for rows_of_call rows and called as often as the block needs.
// inputs: activation, weight (prepared), and a bias if `use` takes one; output: activation. Forward and backward-data.
Result<std::unique_ptr<Kernel>> make_apply_weight(const KernelSpec& spec, Result<dnn::Primitive> use);

// inputs: x, dy; output: the f32 gradient of the weight, to which the call adds.
Result<std::unique_ptr<Kernel>> make_weight_gradient(const KernelSpec& spec, Result<dnn::Primitive> use);

}  // namespace xrun::ops
