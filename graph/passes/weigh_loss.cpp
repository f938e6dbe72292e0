#include "graph/head_values.h"
#include "graph/passes/passes.h"

namespace xrun {

Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const std::string& name) {
  const ValueId factor = graph.add_input(name, {.dtype = DType::kF32, .dims = {kBatch}});
  const OpDef* mul = registry.find("mul");
  for (LossTerm& term : graph.loss) {
    const NodeId made_by = graph.value(term.rows).producer;
    XRUN_CHECK(made_by.valid(), "a loss that nothing computes");
    if (head_of_loss(graph, made_by).valid()) {
      graph.node(made_by).inputs.push_back(factor);
      continue;
    }
    XRUN_CHECK(mul != nullptr, "weights of classes need the operator `mul`");
    const std::string path = graph.node(made_by).path + ".class_weight";
    const Span span = graph.node(made_by).span;
    XRUN_ASSIGN(const NodeId product, call_op(graph, *mul, {term.rows, factor}, {}, path, span));
    term.rows = graph.node(product).outputs[0];
  }
  return graph;
}

}  // namespace xrun
