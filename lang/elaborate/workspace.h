// The output of an elaboration: the graph, the names of its tensors, and the blocks that are being expanded.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "lang/elaborate/scope.h"

namespace xrun::lang {

// A model or block that is being expanded.
struct Expanding {
  Expansion step;
  ExpansionId id;  // valid once the graph has one of its nodes
};

struct Workspace {
  Graph graph;
  TensorNames names;
  std::vector<Expanding> expansion;  // the models and blocks being expanded, outermost first
  int64_t name_weight = 0;           // 1 for every 64 bytes of a node's name
  // For logits [N, C], the text that sets C. The message for labels that do not fit the logits shows it. Index: value.
  std::map<int32_t, Span> columns;
  std::vector<Flops> flops;  // index: node; computed on demand and kept, since nested calls share nodes

  // The size that FrontendOptions::max_nodes bounds: the number of operators, tensors and parameters. Each takes less
  // than 1 KiB. A node with a long name counts as several.
  int64_t size() const {
    return static_cast<int64_t>(graph.nodes.size() + graph.values.size() + graph.params.size()) + name_weight;
  }
  // The chain of expansions of a new node; adds its missing steps to the graph.
  ExpansionId expansion_id();
  std::vector<Expansion> steps() const;
  // The floating-point operations per sample of the forward nodes, from node number `first` to the last.
  Flops flops_from(size_t first);
  // Removes the last node, which has one output.
  void drop_last_node();
  // An empty workspace with equal expansions, for a graph of a test.
  Workspace aside() const;
};

}  // namespace xrun::lang
