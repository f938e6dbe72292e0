#include "graph/cost.h"

namespace xrun {

OpCost cost_of(const Graph& graph, const Node& node) {
  if (node.cost) {
    return *node.cost;
  }
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  inputs.reserve(node.inputs.size());
  outputs.reserve(node.outputs.size());
  for (const ValueId id : node.inputs) {
    inputs.push_back(graph.value(id).type);
  }
  for (const ValueId id : node.outputs) {
    outputs.push_back(graph.value(id).type);
  }
  if (node.op->cost != nullptr) {
    return node.op->cost(inputs, outputs, node.attrs);
  }
  // The default is that of a pointwise operator: one operation per element, and everything is read and written once.
  OpCost cost;
  for (const TensorType& type : inputs) {
    cost.bytes += type.has_batch() ? type.row_elements() * size_of(type.dtype) : 0;
  }
  for (const TensorType& type : outputs) {
    cost.flops += type.has_batch() ? static_cast<Flops>(type.row_elements()) : 0;
    cost.bytes += type.has_batch() ? type.row_elements() * size_of(type.dtype) : 0;
  }
  return cost;
}

OpCost call_cost(const Graph& graph, const Node& node, int64_t rows) {
  OpCost cost = cost_of(graph, node);
  cost.flops *= static_cast<Flops>(rows);
  cost.bytes *= rows;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *list) {
      const TensorType& type = graph.value(id).type;
      cost.bytes += type.has_batch() || type.sharded ? 0 : type.bytes(1, 1);
    }
  }
  return cost;
}

OpCost total_cost(const Graph& graph, Phase phase) {
  OpCost total;
  for (const Node& node : graph.nodes) {
    if (node.phase == phase) {
      const OpCost cost = cost_of(graph, node);
      total.flops += cost.flops;
      total.bytes += cost.bytes;
    }
  }
  return total;
}

}  // namespace xrun
