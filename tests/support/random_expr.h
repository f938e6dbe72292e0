// Random scalar expressions, for properties of their text, derivatives and compiled loops.
#pragma once

#include <random>

#include "graph/scalar_expr.h"

namespace xrun::testing {

// An expression of three inputs and two results, with at most that many operations of all kinds.
ScalarExpr random_expr(std::mt19937& random, int operations);

}  // namespace xrun::testing
