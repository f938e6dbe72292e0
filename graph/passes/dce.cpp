#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {

Result<Graph> eliminate_dead_code(Graph graph) {
  IdVector<ValueId, bool> live(graph.values.size(), false);
  const auto mark = [&](ValueId id) {
    if (id.valid()) {
      live[id] = true;
    }
  };
  for (const ValueId result : results_of(graph)) {
    mark(result);
  }
  for (const ValueId grad : graph.param_grads) {
    mark(grad);
  }
  for (const Head& head : graph.heads) {
    mark(graph.node(head.node).outputs[0]);
  }
  for (const Node& node : graph.nodes) {
    if (!graph.loss.empty() && node.op->folds_states && graph.value(node.outputs[0]).type.per_block()) {
      mark(node.outputs[0]);
    }
  }
  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    for (const ValueId output : graph.nodes[i].outputs) {
      keep[i] = keep[i] || live[output];
    }
    if (keep[i]) {
      for (const ValueId input : graph.nodes[i].inputs) {
        mark(input);
      }
    }
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (keep[i]) {
      rewriter.copy(NodeId(i));
    }
  }
  return std::move(rewriter).finish();
}

}  // namespace xrun
