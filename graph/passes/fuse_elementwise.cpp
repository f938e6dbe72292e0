#include <functional>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/scalar_expr.h"

namespace xrun {
namespace {

// The attributes of a node that takes in its only consumer, a function of one tensor; none where it does not.
using Absorb = std::function<std::optional<Attrs>(const Node& node, const Node& consumer)>;

Graph absorb_consumers(const Graph& graph, const Absorb& absorb) {
  const auto consumers = consumers_of(graph);
  IdVector<ValueId, bool> held(graph.values.size(), false);
  for (const ValueId id : results_of(graph)) {
    held[id] = true;
  }
  IdVector<NodeId, bool> gone(graph.nodes.size(), false);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId id(i);
    const Node& node = graph.nodes[i];
    if (gone[id]) {
      continue;
    }
    const ValueId output = node.outputs[0];
    const bool alone = !node.op->absorbs.empty() && !held[output] && consumers[output].size() == 1;
    const Node* const next = alone ? &graph.node(consumers[output][0]) : nullptr;
    const std::optional<Attrs> attrs =
        next != nullptr && next->inputs.size() == 1 && next->outputs.size() == 1 ? absorb(node, *next) : std::nullopt;
    if (!attrs) {
      rewriter.copy(id);
      continue;
    }
    gone[consumers[output][0]] = true;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(rewriter.map(input));
    }
    const NodeId made = rewriter.copy(id, std::move(inputs), *attrs);
    rewriter.replace(next->outputs[0], rewriter.result().node(made).outputs[0]);
  }
  return std::move(rewriter).finish();
}

}  // namespace

Result<Graph> fuse_elementwise(Graph graph) {
  return absorb_consumers(graph, [](const Node& node, const Node& consumer) -> std::optional<Attrs> {
    if (consumer.op->name != "relu" || node.attrs.has("then")) {
      return std::nullopt;
    }
    Attrs attrs = node.attrs;
    attrs.set("relu", true);
    return attrs;
  });
}

Result<Graph> fuse_functions(Graph graph) {
  return absorb_consumers(graph, [](const Node& node, const Node& consumer) -> std::optional<Attrs> {
    if (node.op->absorbs != "*" || node.attrs.flag("relu", false) || node.attrs.has("then") || !consumer.op->fuses) {
      return std::nullopt;
    }
    std::string text = consumer.op->expr(consumer.attrs);
    const auto function = parse_scalar_expr(text);
    if (!function.ok() || function->results().size() != 1 || function->inputs_read() != std::vector<int>{0}) {
      return std::nullopt;
    }
    Attrs attrs = node.attrs;
    attrs.set("then", std::move(text));
    return attrs;
  });
}

}  // namespace xrun
