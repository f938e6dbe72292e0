// The gradients of a function of numbers that an operator computes element by element.
#pragma once

#include <vector>

#include "graph/autodiff.h"
#include "graph/scalar_expr.h"

namespace xrun::ops {

// The operands that gradients are wanted for.
std::vector<int> wanted_inputs(const GradBuilder& builder);

// Gives all operands of the node that `builder` differentiates their gradients, by one node. `function` reads the
// operands. `dy`, the gradient of its result, has the result's shape, or with a `seed`, the function of one number that
// is applied to it, one that broadcasts to it. REQUIRES: with a seed, `dy` and the operands that the derivatives read
// have that shape together.
Status set_function_grads(GradBuilder& builder, const ScalarExpr& function, ValueId dy, const ScalarExpr* seed);

}  // namespace xrun::ops
