// Rematerialization: determines which forward nodes of a stage run again in its backward pass. The partition chooses
// layers (planner/partition/partition.h), but not all of them need to run, and others may have to run with them.
#pragma once

#include <vector>

#include "planner/search/chain.h"

namespace xrun::planner {

// Returns the layers that run again in the stage with the layers begin .. end - 1; index: position. A `chosen` layer
// runs again only if the backward pass needs its results, directly or through another layer that runs again. A layer
// that was not chosen also runs again if such a layer reads one of its results that is not kept, since keeping it would
// cost the memory that running again saves. So each chosen layer frees the bytes of Chain::saved, and the layers that
// run again with it take the time of Chain::inputs_again_time.
std::vector<bool> rematerialized(const Graph& graph, const Chain& chain, int begin, int end,
                                 const std::vector<int>& chosen);

}  // namespace xrun::planner
