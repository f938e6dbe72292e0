// Convolutions with 3 x 3 windows and stride 1 by Winograd's algorithm F(4x4, 3x3), in f32 (ops/conv/winograd_tiles.h).
// It needs a quarter of the multiply-adds of a direct convolution; its rounding errors are about ten times as large.
#pragma once

#include "ops/dnn/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// Whether the kernels below should compute this convolution because they are faster than oneDNN. The result depends
// only on operator, row block, shape and instruction set (docs/internals/determinism.md, "Choice of kernels").
bool takes_winograd(const KernelSpec& spec, const dnn::ConvShape& shape);

// Make the kernels of the forward pass and of both gradients. `shape` is the shape of the forward pass in all three.
// Inputs and outputs are those of the kernels of ops/dnn/weight_kernel.h.
std::unique_ptr<Kernel> make_winograd(const KernelSpec& spec, const dnn::ConvShape& shape);
std::unique_ptr<Kernel> make_winograd_dx(const KernelSpec& spec, const dnn::ConvShape& shape);
std::unique_ptr<Kernel> make_winograd_dw(const KernelSpec& spec, const dnn::ConvShape& shape);

}  // namespace xrun::ops
