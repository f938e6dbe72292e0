// Rewriter, the frame of all passes: walks an old graph in order and builds a new one, with a map of values and nodes.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// The loss, the outputs and the metrics, as far as they are there: values that something besides nodes holds.
std::vector<ValueId> results_of(const Graph& graph);

// For each value the node that alone reads it, once or more; none where another node or the graph holds it.
IdVector<ValueId, NodeId> sole_readers(const Graph& graph);

// Adds the paths of a node that has become a part of `fused`.
void add_paths(Node& fused, const Node& part);

class Rewriter {
 public:
  // Starts with copies of all inputs and parameters.
  explicit Rewriter(const Graph& old);

  const Graph& old() const { return old_; }
  Graph& result() { return result_; }
  const Graph& result() const { return result_; }

  // The new value of an old one; the old one must have been copied or replaced.
  ValueId map(ValueId id) const;
  std::vector<ValueId> map(std::span<const ValueId> ids) const;
  bool has(ValueId id) const { return values_[id].valid(); }
  void replace(ValueId old_value, ValueId new_value) { values_[old_value] = new_value; }

  // Copies a node with mapped inputs; types of outputs are taken over.
  NodeId copy(NodeId id);
  NodeId copy(NodeId id, std::vector<ValueId> new_inputs, Attrs attrs);

  // Maps outputs, bindings, heads, loss, metrics and gradients, and gives the new graph. Bindings whose value is gone
  // are dropped. Parameters that nothing reads any more stay: a pass never changes what is trained.
  Graph finish() &&;

 private:
  const Graph& old_;
  Graph result_;
  IdVector<ValueId, ValueId> values_;
  IdVector<NodeId, NodeId> nodes_;
};

}  // namespace xrun
