#include <map>
#include <tuple>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {

Result<Graph> eliminate_common_subexpressions(Graph graph) {
  using Key = std::tuple<std::string_view, std::vector<ValueId>, std::string>;
  std::map<Key, NodeId> known;
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::vector<ValueId> inputs;
    bool owns = node.op->random || node.op->head != nullptr;
    for (const ValueId input : node.inputs) {
      inputs.push_back(rewriter.map(input));
      owns = owns || graph.value(input).param.valid();
    }
    if (owns) {
      rewriter.copy(NodeId(i));
      continue;
    }
    const auto [at, fresh] = known.try_emplace(Key{node.op->name, inputs, to_text(node.attrs)}, NodeId());
    if (fresh) {
      at->second = rewriter.copy(NodeId(i));
      continue;
    }
    Node& twin = rewriter.result().nodes[at->second];
    twin.fused_paths.push_back(node.path);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      rewriter.replace(node.outputs[k], twin.outputs[k]);
    }
  }
  return std::move(rewriter).finish();
}

}  // namespace xrun
