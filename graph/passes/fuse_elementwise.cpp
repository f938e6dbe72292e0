#include <functional>
#include <optional>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

// A node's operator and attributes after it has absorbed its only consumer. Further inputs of the consumer follow those
// of the node.
struct Absorbed {
  const OpDef* op = nullptr;
  Attrs attrs;
};
// Returns nullopt if the node does not absorb the consumer of its first output.
using Absorb = std::function<std::optional<Absorbed>(const Node& node, const Node& consumer)>;

Graph absorb_consumers(const Graph& graph, const Absorb& absorb) {
  const IdVector<ValueId, NodeId> readers = sole_readers(graph);
  IdVector<NodeId, bool> gone(graph.nodes.size(), false);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeId id(i);
    const Node& node = graph.nodes[i];
    if (gone[id]) {
      continue;
    }
    const ValueId output = node.outputs[0];
    const Node* const next = readers[output].valid() ? &graph.node(readers[output]) : nullptr;
    const std::optional<Absorbed> absorbed =
        next != nullptr && next->inputs[0] == output && next->outputs.size() == 1 ? absorb(node, *next) : std::nullopt;
    if (!absorbed) {
      rewriter.copy(id);
      continue;
    }
    gone[readers[output]] = true;
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    for (size_t k = 1; k < next->inputs.size(); ++k) {
      inputs.push_back(rewriter.map(next->inputs[k]));
    }
    const NodeId made = rewriter.copy(id, std::move(inputs), absorbed->attrs);
    Node& fused = rewriter.result().nodes[made];
    fused.op = absorbed->op;
    add_paths(fused, *next);
    rewriter.replace(next->outputs[0], rewriter.result().node(made).outputs[0]);
  }
  return std::move(rewriter).finish();
}

}  // namespace

Result<Graph> fuse_elementwise(Graph graph) {
  return absorb_consumers(graph, [](const Node& node, const Node& consumer) -> std::optional<Absorbed> {
    if (node.op->absorbs.empty() || consumer.op->name != "relu" || node.attrs.has("then")) {
      return std::nullopt;
    }
    Absorbed made{node.op, node.attrs};
    made.attrs.set("relu", true);
    return made;
  });
}

Result<Graph> fuse_functions(Graph graph, const OpRegistry& registry) {
  return absorb_consumers(graph, [&](const Node& node, const Node& consumer) -> std::optional<Absorbed> {
    if (node.op->absorbs != "*" || node.attrs.flag("relu", false) || node.attrs.has("then")) {
      return std::nullopt;
    }
    const OpDef* const pair = registry.find(std::string(node.op->name) + "." + std::string(consumer.op->name));
    if (pair != nullptr && consumer.operands == 1) {  // a pair with two operands is left to fuse_residuals
      return Absorbed{pair, node.attrs};
    }
    if (!consumer.op->fuses || consumer.inputs.size() != 1) {
      return std::nullopt;
    }
    std::string text = consumer.op->expr(consumer.attrs);
    const auto function = parse_scalar_expr(text);
    if (!function.ok() || function->results().size() != 1 || function->inputs_read() != std::vector<int>{0}) {
      return std::nullopt;
    }
    Absorbed made{node.op, node.attrs};
    made.attrs.set("then", std::move(text));
    return made;
  });
}

}  // namespace xrun
