#include "graph/cost.h"

namespace xrun {

OpCost cost_of(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  for (const ValueId id : node.inputs) {
    inputs.push_back(graph.value(id).type);
  }
  for (const ValueId id : node.outputs) {
    outputs.push_back(graph.value(id).type);
  }
  if (node.op->cost != nullptr) {
    return node.op->cost(inputs, outputs, node.attrs);
  }
  // Pointwise by default: one operation an element, everything read and written once.
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

std::vector<ValueId> saved_for_backward(const Graph& graph) {
  std::vector<bool> saved(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kBackward) {
      continue;
    }
    for (const ValueId id : node.inputs) {
      const NodeId producer = graph.value(id).producer;
      saved[static_cast<size_t>(id.index)] = producer.valid() && graph.node(producer).phase == Phase::kForward;
    }
  }
  std::vector<ValueId> ids;
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i]) {
      ids.push_back(ValueId(i));
    }
  }
  return ids;
}

double saved_bytes_per_row(const Graph& graph, int64_t block_rows) {
  double bytes = 0;
  for (const ValueId id : saved_for_backward(graph)) {
    bytes += static_cast<double>(graph.value(id).type.bytes(block_rows, block_rows)) / static_cast<double>(block_rows);
  }
  return bytes;
}

}  // namespace xrun
