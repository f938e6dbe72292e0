#include "planner/program/weight_gradients.h"

#include <algorithm>

namespace xrun::planner {

std::vector<bool> weight_gradient_nodes(const Graph& graph) {
  // The forward node for whose weights a value is needed, if it is needed for nothing else; invalid otherwise.
  std::vector<NodeId> owner(graph.values.size());
  std::vector<bool> is_read(graph.values.size(), false);
  std::vector<bool> is_gradient(graph.values.size(), false);
  for (const ValueId gradient : graph.param_grads) {
    if (gradient.valid()) {
      is_gradient[static_cast<size_t>(gradient.index)] = true;
    }
  }
  std::vector<bool> nodes(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    nodes[i] = node.phase == Phase::kBackward && std::ranges::all_of(node.outputs, [&](ValueId output) {
                 const auto v = static_cast<size_t>(output.index);
                 return is_read[v] ? owner[v].valid() && owner[v] == node.forward : is_gradient[v];
               });
    for (const ValueId input : node.inputs) {
      const auto v = static_cast<size_t>(input.index);
      const bool alone = nodes[i] && (!is_read[v] || owner[v] == node.forward);
      owner[v] = alone ? node.forward : NodeId();
      is_read[v] = true;
    }
  }
  return nodes;
}

}  // namespace xrun::planner
