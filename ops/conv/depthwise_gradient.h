// The weight gradient of a depthwise convolution, in which every channel is a group of its own. oneDNN has fast code
// only for windows of 3 x 3. For other windows it computes blocks of 16 x 16 channels although only the diagonal is
// needed.
#pragma once

#include <memory>

#include "ops/dnn/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// Whether the kernel below is faster than oneDNN: each channel is a group of its own, and windows are not 3 x 3.
bool takes_depthwise_gradient(const dnn::ConvShape& shape);

// Makes a kernel with inputs x and dy, which adds the gradient of the weight [C, 1, k, k] to its output. Sums are f32:
// first within each image, then over the images in order, with equal bits on every instruction set. A part computes a
// multiple of 16 channels. REQUIRES: each channel is a group of its own.
Result<std::unique_ptr<Kernel>> make_depthwise_gradient(const KernelSpec& spec, const dnn::ConvShape& shape);

}  // namespace xrun::ops
