// Rematerialization: determines which forward nodes of a stage run again in its backward pass. The partition chooses
// layers (none, all, those of given paths, or the cheapest that fit: planner/search/partition.h); here they become
// nodes.
#pragma once

#include <vector>

#include "planner/search/chain.h"

namespace xrun::planner {

// The layers to run again in the stage begin..end-1; index: position. They are those of the `chosen` layers whose
// results the backward pass needs, directly or through others that run again; and the layers whose results are not kept
// and that such a layer reads, since keeping them would cost the memory that running again saves.
std::vector<bool> rematerialized(const Graph& graph, const Chain& chain, int begin, int end,
                                 const std::vector<int>& chosen);

}  // namespace xrun::planner
