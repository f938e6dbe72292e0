#include "graph/infer.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {

Result<Graph> simplify(Graph graph) {
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op->is_identity != nullptr && node.op->is_identity(input_types(graph, node), node.attrs)) {
      rewriter.replace(node.outputs[0], rewriter.map(node.inputs[0]));
    } else {
      rewriter.copy(NodeId(i));
    }
  }
  return std::move(rewriter).finish();
}

}  // namespace xrun
