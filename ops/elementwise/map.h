// Helpers for operators that compute a scalar expression element by element: the gradients of their operands.
#pragma once

#include <vector>

#include "graph/passes/autodiff.h"
#include "graph/types/scalar_expr.h"

namespace xrun::ops {

// Returns the indices of the operands whose gradients are needed.
std::vector<int> wanted_inputs(const GradBuilder& builder);

// Sets the gradients of all operands of the node that `builder` differentiates; one new node computes them. `function`
// is the expression over the operands, and `dy` the gradient of its result, with the shape of the result. If `seed` is
// given, the gradient is seed(dy), and `dy` may have a shape that broadcasts to the shape of the result. REQUIRES: with
// a seed, the common shape of `dy` and of the operands that the derivatives read is the shape of the result.
Status set_function_grads(GradBuilder& builder, const ScalarExpr& function, ValueId dy, const ScalarExpr* seed);

}  // namespace xrun::ops
