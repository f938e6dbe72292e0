#include <algorithm>

#include "graph/layouts/head_values.h"
#include "graph/layouts/partial_labels.h"
#include "graph/passes/passes.h"

namespace xrun {
namespace {

// The input with the row factors of this name; created for the first term that needs it.
ValueId factors_of(Graph& graph, const std::string& name) {
  const auto known = std::ranges::find(graph.inputs, name, &NamedValue::name);
  return known != graph.inputs.end() ? known->value : graph.add_input(name, {.dtype = DType::kF32, .dims = {kBatch}});
}

// Gives the loss of a head its factors. Equal calls that are metrics also get them, so that all stay one loss.
void weigh_head(Graph& graph, NodeId loss, ValueId factor, bool metrics_too) {
  const Node first = graph.node(loss);
  for (Node& node : graph.nodes) {
    if (&node == &graph.node(loss) ||
        (metrics_too && node.op == first.op && node.inputs == first.inputs && node.attrs == first.attrs)) {
      node.inputs.push_back(factor);
    }
  }
}

}  // namespace

Result<Graph> weigh_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data) {
  const std::vector<NamedValue> partial = partial_labels(graph, data);
  const bool by_class = train.class_weights.kind != ClassWeightsSpec::kNone;
  if (!by_class && partial.empty()) {
    return graph;
  }
  const OpDef* mul = registry.find("mul");
  const auto read = labels_read(graph, partial);
  for (LossTerm& term : graph.loss) {
    const NodeId made_by = graph.value(term.rows).producer;
    XRUN_CHECK(made_by.valid(), "a loss that nothing computes");
    const auto label = std::ranges::find(partial, read[term.rows].label, &NamedValue::value);
    const bool leaves_out = label != partial.end();
    if (head_of_loss(graph, made_by).valid()) {
      // Class weights can only belong to the label of a head.
      const std::string name = !leaves_out ? train.weight_input()
                               : by_class  ? row_factor_input(label->name)
                                           : labelled_input(label->name);
      if (by_class || leaves_out) {
        weigh_head(graph, made_by, factors_of(graph, name), !by_class);
      }
      continue;
    }
    XRUN_CHECK(mul != nullptr, "factors of rows need the operator `mul`");
    const std::string path = graph.node(made_by).path;
    const Span span = graph.node(made_by).span;
    const auto multiply = [&](const std::string& name, const char* step) -> Status {
      const ValueId factor = factors_of(graph, name);
      XRUN_ASSIGN(const NodeId product, call_op(graph, *mul, {term.rows, factor}, {}, path + step, span));
      term.rows = graph.node(product).outputs[0];
      return {};
    };
    if (by_class) {
      XRUN_TRY(multiply(train.weight_input(), ".class_weight"));
    }
    if (leaves_out) {
      XRUN_TRY(multiply(labelled_input(label->name), ".labelled"));
    }
  }
  return graph;
}

}  // namespace xrun
