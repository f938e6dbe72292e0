// Kernels of operators that apply a weight (conv, linear and their gradients) over oneDNN, in f32 or bf16.
#pragma once

#include <functional>

#include "ops/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// The dtype that oneDNN computes in: bf16 activations are widened to f32 if the processor has no fast bf16 units
// (isa.cpp); operands are still rounded to bf16.
DType compute_dtype(const KernelSpec& spec);

// The number of rows for which `use` below is made: a divisor of the block's, equal for any number of workers. It is so
// small that widened activations of a call stay in the second-level cache; an activation takes up to eight calls, which
// can be parts (Kernel::parts). A weight gradient that is not widened is one call, since its sums would depend on the
// calls. Depends only on the spec.
int64_t rows_of_call(const KernelSpec& spec);

// `use` is made for rows_of_call rows and called as often as the block needs.
// inputs: activation, weight (prepared), and a bias if `use` takes one; output: activation. Forward and backward-data.
Result<std::unique_ptr<Kernel>> make_apply_weight(const KernelSpec& spec, Result<dnn::Primitive> use);

// inputs: x, dy; output: the f32 gradient of the weight, to which the call adds. `make` makes the primitive for
// rows_of_call rows and some number of the weight's outputs: all of them, or those of a slice for parts.
using MakeGradient = std::function<Result<dnn::Primitive>(int64_t outputs)>;
Result<std::unique_ptr<Kernel>> make_weight_gradient(const KernelSpec& spec, const MakeGradient& make);

}  // namespace xrun::ops
