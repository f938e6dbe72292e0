// The values that a backward pass makes in the slices of workers, for passes that are cut into ranges of nodes.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun::planner {

// A value, with the positions of nodes in the pass.
struct LocalUse {
  ValueId value;
  size_t made = 0;
  size_t last_read = 0;
};

// Returns the uses of `locals` by `nodes`, the nodes of a pass in their order.
std::vector<LocalUse> local_uses(const Graph& graph, const std::vector<NodeId>& nodes,
                                 const std::vector<ValueId>& locals);

// The values that a range of the nodes makes.
struct RangeValues {
  std::vector<ValueId> kept;    // values that nodes after the range read, so that they need buffers
  std::vector<ValueId> locals;  // values that remain in the slices of workers
};

RangeValues values_of_range(const std::vector<LocalUse>& uses, size_t begin, size_t end);

}  // namespace xrun::planner
