#include "graph/directed_graph.h"

#include <algorithm>
#include <queue>

namespace xrun {

DirectedGraph::DirectedGraph(size_t nodes, std::vector<std::pair<int, int>> edges) : readers(nodes), waits(nodes, 0) {
  std::ranges::sort(edges);
  const auto same = std::ranges::unique(edges);
  edges.erase(same.begin(), same.end());
  for (const auto& [from, to] : edges) {
    readers[static_cast<size_t>(from)].push_back(to);
    ++waits[static_cast<size_t>(to)];
  }
}

std::vector<int> DirectedGraph::order_by(const std::function<int64_t(int node, int turn)>& number) const {
  std::priority_queue<std::pair<int64_t, int>, std::vector<std::pair<int64_t, int>>, std::greater<>> ready;
  std::vector<int> left = waits;
  std::vector<int> order;
  int turn = 0;
  for (size_t n = 0; n < left.size(); ++n) {
    if (left[n] == 0) {
      ready.emplace(number(static_cast<int>(n), turn), static_cast<int>(n));
    }
  }
  while (!ready.empty()) {
    const int node = ready.top().second;
    ready.pop();
    order.push_back(node);
    ++turn;
    for (const int reader : readers[static_cast<size_t>(node)]) {
      if (--left[static_cast<size_t>(reader)] == 0) {
        ready.emplace(number(reader, turn), reader);
      }
    }
  }
  return order;
}

}  // namespace xrun
