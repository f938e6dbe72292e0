// The loss as a sum of terms. The head pass computes the loss of each row and its gradient, so no operator of the graph
// can read the loss of a sharded head: sums and products with numbers become terms with factors.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

// A term for each loss of a head, and one for each other value that is added to them, in the order of the values. A
// loss that no head gives stays as it is.
// Errors: kContent XG0504 at the operator that computes more than a sum or a product with a number, at a factor that is
// no f32 number, and at a second loss of one head.
Result<std::vector<LossTerm>> split_loss(const Graph& graph, const std::vector<LossTerm>& loss);

// Terms that passes have given the same rows become one.
std::vector<LossTerm> merge_terms(const std::vector<LossTerm>& loss);

}  // namespace xrun
