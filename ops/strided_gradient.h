// The weight gradient of a convolution with 1 x 1 windows and a stride. It replaces oneDNN's, which is wrong for few
// channels (dnn::overruns_workspace): the pixels that the convolution reads are copied to contiguous memory, and a
// convolution without stride has the same gradient.
#pragma once

#include "ops/dnn.h"
#include "ops/weight_kernel.h"

namespace xrun::ops {

// inputs: x, dy; output: the gradient of the weight, to which the call adds. `shape` is that of the forward pass;
// `make` makes the kernel of the convolution without stride.
using MakeUnstrided = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec&, const dnn::ConvShape&)>;
Result<std::unique_ptr<Kernel>> make_strided_gradient(const KernelSpec& spec, const dnn::ConvShape& shape,
                                                      const MakeUnstrided& make);

}  // namespace xrun::ops
