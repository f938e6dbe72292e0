#include "graph/passes/fuse_elementwise.h"

#include "graph/passes/rewrite.h"

namespace xrun {
namespace {

// Values that something besides nodes holds: they must stay as they are.
std::vector<bool> find_held(const Graph& graph) {
  std::vector<bool> held(graph.values.size(), false);
  const auto hold = [&](ValueId id) {
    if (id.valid()) {
      held[static_cast<size_t>(id.index)] = true;
    }
  };
  hold(graph.loss);
  for (const NamedValue& output : graph.outputs) {
    hold(output.value);
  }
  for (const ValueId metric : graph.metrics) {
    hold(metric);
  }
  return held;
}

}  // namespace

Result<Graph> fuse_elementwise(Graph graph) {
  const std::vector<std::vector<NodeId>> consumers = consumers_of(graph);
  const std::vector<bool> held = find_held(graph);
  // The pointwise node that each node takes in.
  std::vector<NodeId> absorbed(graph.nodes.size());
  std::vector<bool> gone(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op->absorbs.empty() || gone[i]) {
      continue;
    }
    const auto output = static_cast<size_t>(node.outputs[0].index);
    if (held[output] || consumers[output].size() != 1) {
      continue;
    }
    const NodeId next = consumers[output][0];
    if (graph.node(next).op->name == node.op->absorbs && graph.node(next).inputs.size() == 1) {
      absorbed[i] = next;
      gone[static_cast<size_t>(next.index)] = true;
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
