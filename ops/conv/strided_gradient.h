// The weight gradient of a convolution with 1 x 1 windows and a stride. It replaces oneDNN's gradient, which is wrong
// for few channels (dnn::overruns_workspace). The pixels that the convolution reads are copied to contiguous memory; a
// convolution without stride over these pixels has the same gradient.
#pragma once

#include "ops/dnn/dnn.h"
#include "ops/dnn/weight_kernel.h"

namespace xrun::ops {

// Makes a kernel with inputs x and dy, which adds the gradient of the weight to its output. `shape` is the shape of the
// forward pass; `make` makes the kernel of the convolution without stride.
using MakeUnstrided = std::function<Result<std::unique_ptr<Kernel>>(const KernelSpec&, const dnn::ConvShape&)>;
Result<std::unique_ptr<Kernel>> make_strided_gradient(const KernelSpec& spec, const dnn::ConvShape& shape,
                                                      const MakeUnstrided& make);

}  // namespace xrun::ops
