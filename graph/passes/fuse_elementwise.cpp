#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {
Result<Graph> fuse_elementwise(Graph graph) {
  const auto consumers = consumers_of(graph);
  IdVector<ValueId, bool> held(graph.values.size(), false);
  for (const ValueId id : results_of(graph)) {
    held[id] = true;
  }
  // The pointwise node that each node takes in.
  IdVector<NodeId, NodeId> absorbed(graph.nodes.size());
  IdVector<NodeId, bool> gone(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op->absorbs.empty() || gone[i]) {
      continue;
    }
    const ValueId output = node.outputs[0];
    if (held[output] || consumers[output].size() != 1) {
      continue;
    }
    const NodeId next = consumers[output][0];
    if (graph.node(next).op->name == node.op->absorbs && graph.node(next).inputs.size() == 1) {
      absorbed[i] = next;
      gone[next] = true;
    }
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (gone[i]) {
      continue;
    }
    if (!absorbed[i].valid()) {
      rewriter.copy(NodeId(i));
      continue;
    }
    const Node& node = graph.nodes[i];
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(rewriter.map(input));
    }
    Attrs attrs = node.attrs;
    attrs.set(node.op->absorbs, true);
    const NodeId made = rewriter.copy(NodeId(i), std::move(inputs), std::move(attrs));
    rewriter.replace(graph.node(absorbed[i]).outputs[0], rewriter.result().node(made).outputs[0]);
  }
  return std::move(rewriter).finish();
}

}  // namespace xrun
