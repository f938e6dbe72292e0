#include "graph/infer.h"

namespace xrun {

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (const ValueId id : node.inputs) {
    // A call's own parameters follow its tensors. A backward node takes everything in full.
    if (node.phase == Phase::kForward && graph.value(id).param.valid()) {
      break;
    }
    types.push_back(graph.value(id).type);
  }
  return types;
}

Result<Graph> infer_types(Graph graph) {
  for (Node& node : graph.nodes) {
    auto shape = node.op->infer(input_types(graph, node), node.attrs);
    if (!shape.ok()) {
      Error error = std::move(shape).error();
      error.span = node.span;
      return error;
    }
    XRUN_CHECK(shape->outputs.size() == node.outputs.size(), "infer changed the number of outputs");
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.value(node.outputs[i]).type = shape->outputs[i];
    }
  }
  return graph;
}

}  // namespace xrun
