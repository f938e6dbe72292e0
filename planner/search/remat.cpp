#include "planner/search/remat.h"

#include <algorithm>

namespace xrun::planner {

std::vector<bool> rematerialized(const Graph& graph, const Chain& chain, int begin, int end,
                                 const std::vector<int>& chosen) {
  std::vector<bool> again(chain.nodes.size(), false);
  for (const int l : chosen) {
    again[static_cast<size_t>(l)] = true;
  }
  std::vector<bool> read(graph.values.size(),
                         false);  // true: read by a backward node of the stage, or by a node that runs again
  const auto read_by = [&](NodeId node) {
    for (const ValueId id : graph.node(node).inputs) {
      read[static_cast<size_t>(id.index)] = true;
    }
  };
  for (int l = begin; l < end; ++l) {
    const auto& backward = chain.backward[static_cast<size_t>(l)];
    std::for_each(backward.begin(), backward.end(), read_by);
  }
  for (int l = end - 1; l >= begin; --l) {
    const auto p = static_cast<size_t>(l);
    const Node& node = graph.node(chain.nodes[p]);
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return read[static_cast<size_t>(id.index)]; });
    again[p] = needed && (again[p] || chain.saved[p] == 0);
    if (again[p]) {
      read_by(chain.nodes[p]);
    }
  }
  return again;
}

}  // namespace xrun::planner
