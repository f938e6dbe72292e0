#include "graph/infer.h"

namespace xrun {

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (int i = 0; i < node.operands; ++i) {
    types.push_back(graph.value(node.inputs[static_cast<size_t>(i)]).type);
  }
  return types;
}

}  // namespace xrun
