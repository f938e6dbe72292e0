// Kernels of operators that apply a weight (conv, linear and their gradients) over oneDNN, in f32, bf16 or f16.
#pragma once

#include <functional>

#include "ops/dnn/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// Returns the dtype in which oneDNN computes. bf16 activations are widened to f32 if the processor has no fast bf16
// units (isa.cpp), f16 activations always; operands are rounded to the narrow type in any case.
DType compute_dtype(const KernelSpec& spec);

// Returns the number of rows for which the primitive of a kernel is made: a divisor of the rows of the block, which
// depends only on the spec and not on the number of workers. It is so small that the widened activations of a call stay
// in the second-level cache. An activation is computed in up to eight calls, which can be different parts
// (Kernel::parts). A weight gradient that is not widened is a single call, since its sums would depend on the number of
// calls.
int64_t rows_of_call(const KernelSpec& spec);

// Makes the kernel of a forward pass or of an input gradient. Inputs: an activation, the weight (prepared), and a bias
// if `use` takes one; output: an activation. `use` is made for rows_of_call rows and is called as often as the block
// needs.
Result<std::unique_ptr<Kernel>> make_apply_weight(const KernelSpec& spec, Result<dnn::Primitive> use);

// Makes the kernel of a weight gradient. Inputs: x and dy; output: the f32 gradient of the weight, to which the call
// adds. make(outputs) makes the primitive for rows_of_call rows and for `outputs` of the weight's outputs: all of them,
// or those of a slice if parts compute slices.
using MakeGradient = std::function<Result<dnn::Primitive>(int64_t outputs)>;
Result<std::unique_ptr<Kernel>> make_weight_gradient(const KernelSpec& spec, const MakeGradient& make);

}  // namespace xrun::ops
