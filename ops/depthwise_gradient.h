// The weight gradient of a depthwise convolution, whose groups are single channels. oneDNN has fast code only for
// windows of 3 x 3; it computes others as blocks of 16 x 16 channels, of which only the diagonal is needed.
#pragma once

#include <memory>

#include "ops/dnn.h"
#include "ops/op.h"

namespace xrun::ops {

// Whether the kernel below is faster: each channel is a group of its own, and windows are not 3 x 3.
bool takes_depthwise_gradient(const dnn::ConvShape& shape);

// inputs: x, dy; output: the gradient of the weight [C, 1, k, k], to which the call adds. Sums are f32, first within
// each image, then over the images in order, with equal bits on every instruction set; parts are of 16 channels.
// REQUIRES: each channel is a group.
Result<std::unique_ptr<Kernel>> make_depthwise_gradient(const KernelSpec& spec, const dnn::ConvShape& shape);

}  // namespace xrun::ops
