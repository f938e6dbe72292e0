#include <map>

#include "graph/passes/passes.h"

namespace xrun {

Result<Graph> copy_results(Graph graph, const OpRegistry& registry) {
  const OpDef* const copy = registry.find("stop_gradient");
  std::map<ValueId, ValueId> copies;
  const auto replace = [&](ValueId& result, const std::string& name, Span span) -> Status {
    if (!result.valid()) {
      return {};
    }
    const Value& value = graph.value(result);
    if (copy == nullptr || value.producer.valid() || !value.type.has_batch() || !is_computed(value.type.dtype)) {
      return {};
    }
    if (const auto known = copies.find(result); known != copies.end()) {
      result = known->second;
      return {};
    }
    XRUN_ASSIGN(const NodeId made, call_op(graph, *copy, {result}, {}, name, span));
    copies.emplace(result, graph.node(made).outputs[0]);
    result = graph.node(made).outputs[0];
    return {};
  };
  for (NamedValue& output : graph.outputs) {
    XRUN_TRY(replace(output.value, output.name, {}));
  }
  for (ValueId& metric : graph.metrics) {
    const std::string name = graph.value(metric).name;
    XRUN_TRY(replace(metric, name, {}));
  }
  return graph;
}

}  // namespace xrun
