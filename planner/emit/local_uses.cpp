#include "planner/emit/local_uses.h"

#include <unordered_map>

namespace xrun::planner {

std::vector<LocalUse> local_uses(const Graph& graph, const std::vector<NodeId>& nodes,
                                 const std::vector<ValueId>& locals) {
  std::unordered_map<ValueId, size_t> index;
  std::vector<LocalUse> uses;
  for (const ValueId value : locals) {
    index[value] = uses.size();
    uses.push_back({.value = value});
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = graph.node(nodes[n]);
    for (const ValueId output : node.outputs) {
      if (const auto use = index.find(output); use != index.end()) {
        uses[use->second].made = uses[use->second].last_read = n;
      }
    }
    for (const ValueId input : node.inputs) {
      if (const auto use = index.find(input); use != index.end()) {
        uses[use->second].last_read = n;
      }
    }
  }
  return uses;
}

RangeValues values_of_range(const std::vector<LocalUse>& uses, size_t begin, size_t end) {
  RangeValues values;
  for (const LocalUse& use : uses) {
    if (use.made >= begin && use.made < end) {
      (use.last_read >= end ? values.kept : values.locals).push_back(use.value);
    }
  }
  return values;
}

}  // namespace xrun::planner
