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
  ExpansionId id;  // in the graph, from its first node on
};

struct Workspace {
  Graph graph;
  TensorNames names;
  std::vector<Expanding> expansion;  // outermost first
  int64_t name_weight = 0;           // of the nodes' long names: 1 for every 64 bytes
  // Where the text says how many columns logits [N, C] have, by value; for labels that do not fit them.
  std::map<int32_t, Span> columns;

  // The size that FrontendOptions::max_nodes bounds: operators, their tensors and parameters. Each takes less than 1
  // KiB; one with a long name counts for several.
  int64_t size() const {
    return static_cast<int64_t>(graph.nodes.size() + graph.values.size() + graph.params.size()) + name_weight;
  }
  // The chain of expansions for a new node; its steps enter the graph with the first node that needs them.
  ExpansionId expansion_id();
  std::vector<Expansion> steps() const;
  // An empty workspace at the same place of the text, for a graph that is only measured.
  Workspace aside() const;
};

}  // namespace xrun::lang
