// Helpers for operands with the same number of dimensions, each of which is equal or 1: the shape of the result, and
// the gradients of operands that were broadcast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/passes/autodiff.h"
#include "graph/types/tensor_type.h"

namespace xrun::ops {

// Returns the type of an element-wise result. Activations have the same number of dimensions and the same element type;
// parameters have no batch, and their last dimension is aligned with the last one of the activations: [D] goes with [N,
// T, D]. `verb` is a word for messages, such as "add". Errors: XG0301, XG0304.
Result<TensorType> broadcast(std::string_view verb, std::span<const TensorType> operands);

// Adds leading dimensions of 1 to an operand. REQUIRES: it has at most `rank` dimensions.
TensorType aligned(const TensorType& operand, int rank);

// Sets the gradient of input `input` to `grad`, which has the shape of the result. If the input was broadcast or is a
// parameter, `grad` is first summed to the input's shape.
Status set_broadcast_grad(GradBuilder& builder, int input, ValueId grad);

}  // namespace xrun::ops
