// The loss as a sum of terms. The head pass computes the loss of each row and its gradient, so no operator of the graph
// can read the loss of a sharded head: sums and products with numbers become terms with factors. Parts of a sum that
// compare with different partial labels (graph/layouts/partial_labels.h) also become terms, since each leaves out its
// own rows.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

// Returns the terms of a loss in the order of their values: each loss of a head is a term, and so is each other value
// that is added to them. If parts of a sum are computed from different labels of `partial`, each part is a term. Any
// other loss is unchanged. Errors: kContent XG0504 at an operator other than a sum or a product with a number, at a
// factor that is not an f32 number, at a second loss of one head, and at a term that is computed from several labels of
// `partial`.
Result<std::vector<LossTerm>> split_loss(const Graph& graph, const std::vector<LossTerm>& loss,
                                         const std::vector<NamedValue>& partial = {});

// Merges terms whose rows are now one value, for example because a pass has merged equal calls: their factors are
// added.
std::vector<LossTerm> merge_terms(const std::vector<LossTerm>& loss);

}  // namespace xrun
