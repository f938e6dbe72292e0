// A directed graph of numbered nodes, and orders of its nodes in which each comes after those that it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace xrun {

struct DirectedGraph {
  /// @param edges pairs of nodes from 0 to nodes - 1, of which the second one reads the first one; an edge may occur
  /// several times
  DirectedGraph(size_t nodes, std::vector<std::pair<int, int>> edges);

  /// @return the nodes in topological order: of all that may come next, the one with the least number comes, and of
  /// equal ones the first. `number` is called once for each node, when it may come; `turn` nodes come before it. Nodes
  /// in or after a cycle are left out.
  std::vector<int> order_by(const std::function<int64_t(int node, int turn)>& number) const;

  std::vector<std::vector<int>> readers;  // index: node; each reader once
  std::vector<int> waits;                 // the number of nodes that a node reads
};

}  // namespace xrun
