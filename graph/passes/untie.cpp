#include "graph/passes/untie.h"

namespace xrun {

Graph untie(Graph graph) {
  IdVector<ParamId, bool> read(graph.params.size(), false);
  const size_t nodes = graph.nodes.size();
  for (size_t i = 0; i < nodes; ++i) {
    for (size_t k = 0; k < graph.nodes[i].inputs.size(); ++k) {
      const ParamId param = graph.value(graph.nodes[i].inputs[k]).param;
      if (!param.valid() || !graph.param(param).updated() || graph.param(param).head) {
        continue;
      }
      if (!read[param]) {
        read[param] = true;
        continue;
      }
      graph.params[param].tied = param;
      Parameter copy = graph.param(param);
      Value value = graph.value(copy.value);
      copy.value = ValueId(graph.values.size());
      value.param = ParamId(graph.params.size());
      graph.values.push_back(std::move(value));
      graph.params.push_back(std::move(copy));
      graph.nodes[i].inputs[k] = graph.params[ParamId(graph.params.size() - 1)].value;
      read.push_back(true);
    }
  }
  return graph;
}

std::vector<ParamId> tied_group(const Graph& graph, ParamId param) {
  std::vector<ParamId> group;
  const ParamId first = graph.param(param).tied;
  for (size_t p = 0; first.valid() && p < graph.params.size(); ++p) {
    if (graph.params[p].tied == first) {
      group.emplace_back(p);
    }
  }
  return group;
}

}  // namespace xrun
