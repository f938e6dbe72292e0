#include "graph/layouts/head_values.h"

#include <algorithm>

namespace xrun {

NodeId head_of_loss(const Graph& graph, NodeId loss) {
  if (!loss.valid() || graph.node(loss).op->margin == nullptr || graph.node(loss).inputs.empty()) {
    return {};
  }
  const NodeId head = graph.value(graph.node(loss).inputs[0]).producer;
  return head.valid() && graph.node(head).op->head != nullptr ? head : NodeId();
}

IdVector<ValueId, bool> values_of_heads(const Graph& graph) {
  IdVector<ValueId, bool> of_head(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    const bool is_of_head =
        node.op->head != nullptr || std::ranges::any_of(node.inputs, [&](ValueId input) { return of_head[input]; });
    for (const ValueId output : node.outputs) {
      of_head[output] = is_of_head;
    }
  }
  return of_head;
}

}  // namespace xrun
