// Convolutions with 3 x 3 windows at stride 1 by Winograd's F(4x4, 3x3), in f32 (ops/winograd_tiles.h): a quarter of
// the multiply-adds of a direct convolution, for rounding errors some ten times as large.
#pragma once

#include "ops/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// Whether the kernels below compute this convolution because they are faster: a pure function of operator, row block,
// shape and instruction set (docs/internals/determinism.md, "Choice of kernels").
bool takes_winograd(const KernelSpec& spec, const dnn::ConvShape& shape);

// `shape` is that of the forward pass in all three. Inputs and outputs as in ops/weight_kernel.h.
std::unique_ptr<Kernel> make_winograd(const KernelSpec& spec, const dnn::ConvShape& shape);
std::unique_ptr<Kernel> make_winograd_dx(const KernelSpec& spec, const dnn::ConvShape& shape);
std::unique_ptr<Kernel> make_winograd_dw(const KernelSpec& spec, const dnn::ConvShape& shape);

}  // namespace xrun::ops
