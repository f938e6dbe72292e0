// Tests: tests/graph/passes/passes_test.cpp
#include "graph/passes/rewrite.h"

namespace xrun {

std::vector<ValueId> results_of(const Graph& graph) {
  std::vector<ValueId> results = graph.metrics;
  for (const NamedValue& output : graph.outputs) {
    results.push_back(output.value);
  }
  for (const LossTerm& term : graph.loss) {
    results.push_back(term.rows);
  }
  std::erase_if(results, [](ValueId id) { return !id.valid(); });
  return results;
}

IdVector<ValueId, NodeId> sole_readers(const Graph& graph) {
  const auto consumers = consumers_of(graph);
  IdVector<ValueId, NodeId> readers(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (consumers[ValueId(i)].size() == 1) {
      readers[ValueId(i)] = consumers[ValueId(i)][0];
    }
  }
  for (const ValueId id : results_of(graph)) {
    readers[id] = NodeId();
  }
  return readers;
}

void add_paths(Node& fused, const Node& part) {
  fused.fused_paths.push_back(part.path);
  fused.fused_paths.insert(fused.fused_paths.end(), part.fused_paths.begin(), part.fused_paths.end());
}

Rewriter::Rewriter(const Graph& old) : old_(old), values_(old.values.size()), nodes_(old.nodes.size()) {
  // Value ids of inputs and parameters keep their relative order, so an unchanged graph prints as before.
  for (size_t i = 0; i < old.values.size(); ++i) {
    const Value& value = old.values[i];
    if (!value.producer.valid()) {
      const ValueId made(result_.values.size());
      result_.values.push_back(value);
      values_[i] = made;
    }
  }
  result_.params = old.params;
  for (Parameter& parameter : result_.params) {
    parameter.value = map(parameter.value);
  }
  result_.inputs = old.inputs;
  for (NamedValue& input : result_.inputs) {
    input.value = map(input.value);
  }
}

ValueId Rewriter::map(ValueId id) const {
  if (!id.valid()) {
    return id;
  }
  const ValueId mapped = values_[id];
  XRUN_CHECK(mapped.valid(), "a pass dropped a value that is still read");
  return mapped;
}

std::vector<ValueId> Rewriter::map(std::span<const ValueId> ids) const {
  std::vector<ValueId> mapped;
  for (const ValueId id : ids) {
    mapped.push_back(map(id));
  }
  return mapped;
}

NodeId Rewriter::copy(NodeId id) { return copy(id, map(old_.node(id).inputs), old_.node(id).attrs); }

NodeId Rewriter::copy(NodeId id, std::vector<ValueId> new_inputs, Attrs attrs) {
  Node node = old_.node(id);
  const std::vector<ValueId> old_outputs = std::move(node.outputs);
  node.outputs.clear();
  node.inputs = std::move(new_inputs);
  node.attrs = std::move(attrs);
  if (node.forward.valid()) {
    node.forward = nodes_[node.forward];
  }
  std::vector<TensorType> types;
  for (const ValueId output : old_outputs) {
    types.push_back(old_.value(output).type);
  }
  const NodeId made = result_.add_node(std::move(node), types);
  for (size_t i = 0; i < old_outputs.size(); ++i) {
    values_[old_outputs[i]] = result_.node(made).outputs[i];
  }
  nodes_[id] = made;
  return made;
}

Graph Rewriter::finish() && {
  for (const NamedValue& output : old_.outputs) {
    result_.outputs.push_back({output.name, map(output.value)});
  }
  for (const NamedValue& binding : old_.bindings) {
    if (has(binding.value)) {
      result_.bindings.push_back({binding.name, map(binding.value)});
    }
  }
  for (const Head& head : old_.heads) {
    const NodeId node = nodes_[head.node];
    if (node.valid()) {
      result_.heads.push_back({head.name, node, head.span});
    }
  }
  for (const ValueId metric : old_.metrics) {
    result_.metrics.push_back(map(metric));
  }
  for (const LossTerm& term : old_.loss) {
    result_.loss.push_back({map(term.rows), term.factor});
  }
  for (const ValueId grad : old_.param_grads) {
    result_.param_grads.push_back(map(grad));
  }
  return std::move(result_);
}

}  // namespace xrun
