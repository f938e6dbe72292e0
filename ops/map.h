// The gradients of a function of numbers that an operator computes element by element.
#pragma once

#include <vector>

#include "graph/autodiff.h"
#include "graph/scalar_expr.h"

namespace xrun::ops {

// The operands whose gradients are wanted.
std::vector<int> wanted_inputs(const GradBuilder& builder);

// Gives all operands of the node that `builder` differentiates their gradients, with one node. `function` reads the
// operands. `dy` is the gradient of its result and has the result's shape. With a `seed`, a function of one number that
// is applied to `dy`, its shape need only broadcast to the result's. REQUIRES: with a seed, `dy` and the operands that
// the derivatives read together have that shape.
Status set_function_grads(GradBuilder& builder, const ScalarExpr& function, ValueId dy, const ScalarExpr* seed);

}  // namespace xrun::ops
