#include "planner/search/remat.h"

#include <algorithm>

namespace xrun::planner {

std::vector<bool> rematerialized(const Graph& graph, const Chain& chain, int begin, int end,
                                 const std::vector<int>& chosen) {
  std::vector<bool> again(chain.nodes.size(), false);
  for (const int l : chosen) {
    again[static_cast<size_t>(l)] = true;
  }
  std::vector<bool> kept(graph.values.size(), false);  // read by a backward node of the stage
  std::vector<bool> read(graph.values.size(), false);  // read by a node that runs again
  const auto read_by = [&](NodeId node, std::vector<bool>& values) {
    for (const ValueId id : graph.node(node).inputs) {
      values[static_cast<size_t>(id.index)] = true;
    }
  };
  for (int l = begin; l < end; ++l) {
    for (const NodeId node : chain.backward[static_cast<size_t>(l)]) {
      read_by(node, kept);
    }
  }
  for (int l = end - 1; l >= begin; --l) {
    const auto p = static_cast<size_t>(l);
    const auto& outputs = graph.node(chain.nodes[p]).outputs;
    bool needed = false;
    bool lost = false;  // a value has to be made again that nothing keeps
    for (const ValueId id : outputs) {
      const auto v = static_cast<size_t>(id.index);
      needed = needed || kept[v] || read[v];
      lost = lost || (read[v] && !kept[v]);
    }
    again[p] = lost || (again[p] && needed);
    if (again[p]) {
      read_by(chain.nodes[p], read);
    }
  }
  return again;
}

}  // namespace xrun::planner
