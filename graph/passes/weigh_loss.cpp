#include "graph/passes/passes.h"

namespace xrun {

Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const std::string& name) {
  const ValueId loss = graph.loss;
  const ValueId factor = graph.add_input(name, {.dtype = DType::kF32, .dims = {kBatch}});
  const NodeId made_by = graph.value(loss).producer;
  XRUN_CHECK(made_by.valid(), "a loss that nothing computes");
  const NodeId logits =
      graph.node(made_by).inputs.empty() ? NodeId() : graph.value(graph.node(made_by).inputs[0]).producer;
  if (graph.node(made_by).op->margin != nullptr && logits.valid() && graph.node(logits).op->head != nullptr) {
    graph.node(made_by).inputs.push_back(factor);
    return graph;
  }
  const OpDef* mul = registry.find("mul");
  XRUN_CHECK(mul != nullptr, "weights of classes need the operator `mul`");
  const std::string path = graph.node(made_by).path + ".class_weight";
  const Span span = graph.node(made_by).span;
  XRUN_ASSIGN(const NodeId product, call_op(graph, *mul, {loss, factor}, {}, path, span));
  graph.loss = graph.node(product).outputs[0];
  return graph;
}

}  // namespace xrun
