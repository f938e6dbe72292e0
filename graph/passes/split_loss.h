// The loss as a sum of terms. The head pass computes the loss of each row and its gradient, so no operator of the graph
// can read the loss of a sharded head: sums and products with numbers become terms with factors. Parts of a sum that
// compare with different partial labels (graph/partial_labels.h) also become terms, since each leaves out its own rows.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

// One term for each loss of a head, and one for each other value that is added to them, in the order of the values;
// also one for each part of a sum that is computed from another label of `partial` than the others. Any other loss is
// unchanged. Errors: kContent XG0504 at an operator other than a sum or a product with a number, at a factor that is
// not an f32 number, at a second loss of one head, and at a term that is computed from several labels of `partial`.
Result<std::vector<LossTerm>> split_loss(const Graph& graph, const std::vector<LossTerm>& loss,
                                         const std::vector<NamedValue>& partial = {});

// Merges terms to whose rows passes have given one value.
std::vector<LossTerm> merge_terms(const std::vector<LossTerm>& loss);

}  // namespace xrun
