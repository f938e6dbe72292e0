#include "lang/elaborate/workspace.h"

#include <algorithm>
#include <numeric>

#include "graph/cost.h"

namespace xrun::lang {

ExpansionId Workspace::expansion_id() {
  size_t known = expansion.size();
  while (known > 0 && !expansion[known - 1].id.valid()) {
    --known;
  }
  for (; known < expansion.size(); ++known) {
    expansion[known].id = ExpansionId(graph.expansions.size());
    graph.expansions.push_back({expansion[known].step, known > 0 ? expansion[known - 1].id : ExpansionId()});
  }
  return expansion.empty() ? ExpansionId() : expansion.back().id;
}

void Workspace::drop_last_node() {
  graph.nodes.pop_back();
  graph.values.pop_back();
  flops.resize(std::min(flops.size(), graph.nodes.size()));
}

Flops Workspace::flops_from(size_t first) {
  while (flops.size() < graph.nodes.size()) {
    flops.push_back(cost_of(graph, graph.nodes[flops.size()]).flops);
  }
  return std::accumulate(flops.begin() + static_cast<std::ptrdiff_t>(first), flops.end(), Flops());
}

std::vector<Expansion> Workspace::steps() const {
  std::vector<Expansion> steps;
  for (const Expanding& level : expansion) {
    steps.push_back(level.step);
  }
  return steps;
}

Workspace Workspace::aside() const {
  Workspace made;
  for (const Expanding& level : expansion) {
    made.expansion.push_back({level.step, {}});
  }
  return made;
}

}  // namespace xrun::lang
