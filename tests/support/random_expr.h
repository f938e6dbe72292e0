// Makes random scalar expressions for tests of their text, derivatives and compiled loops.
#pragma once

#include <random>

#include "graph/types/scalar_expr.h"

namespace xrun::testing {

// Returns an expression of three inputs with two results and at most `operations` operations of all kinds.
ScalarExpr random_expr(std::mt19937& random, int operations);

}  // namespace xrun::testing
