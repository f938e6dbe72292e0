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

}  // namespace xrun
