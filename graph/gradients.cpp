#include "graph/gradients.h"

#include <algorithm>

namespace xrun {
namespace {

// The head whose class weights or bias the parameter is; null for other parameters.
const Node* find_head(const Graph& graph, ParamId param) {
  for (const Head& head : graph.heads) {
    const Node& node = graph.node(head.node);
    if (std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](ValueId input) { return graph.value(input).param == param; })) {
      return &node;
    }
  }
  return nullptr;
}

}  // namespace

bool has_gradient(const Graph& graph, ParamId param) {
  const Parameter& what = graph.param(param);
  if (!what.updated() || graph.param_grads.empty()) {
    return false;
  }
  if (!what.head) {
    return graph.param_grads[param].valid();
  }
  const Node* head = find_head(graph, param);
  return head != nullptr && std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
           return node.op->margin != nullptr && !node.inputs.empty() && node.inputs[0] == head->outputs[0];
         });
}

}  // namespace xrun
