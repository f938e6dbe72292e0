// Operands of one rank whose dimensions are equal or 1: their common shape, and the gradients of those that were
// broadcast.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/autodiff.h"
#include "graph/base/result.h"
#include "graph/tensor_type.h"

namespace xrun::ops {

// The type of an element-wise result. Activations have one rank and one element type; parameters have no batch, and
// their last dimension is aligned with the last one of the activations: [D] goes with [N, T, D]. `verb`: "add", for
// messages. Errors: XG0301, XG0304.
Result<TensorType> broadcast(std::string_view verb, std::span<const TensorType> operands);

// Adds leading dimensions of 1 to an operand. REQUIRES: it has at most `rank` dimensions.
TensorType aligned(const TensorType& operand, int rank);

// Gives `grad`, of the shape of the result, to an input that may have been broadcast, or is a parameter.
Status set_broadcast_grad(GradBuilder& builder, int input, ValueId grad);

}  // namespace xrun::ops
