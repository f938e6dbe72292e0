// Rewriter, the base of all passes: goes through an old graph in order and builds a new one, with a map of values and
// nodes.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace xrun {

// The loss, the outputs and the metrics that exist: values that are used by something other than nodes.
std::vector<ValueId> results_of(const Graph& graph);

// For each value, the only node that reads it, possibly more than once. Invalid if several nodes read the value or the
// graph itself uses it.
IdVector<ValueId, NodeId> sole_readers(const Graph& graph);

// Adds the paths of a node that has become part of `fused`.
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

  // Copies a node with mapped inputs and unchanged output types.
  NodeId copy(NodeId id);
  NodeId copy(NodeId id, std::vector<ValueId> new_inputs, Attrs attrs);

  // Maps outputs, bindings, heads, loss, metrics and gradients, and returns the new graph. Bindings whose value is gone
  // are dropped. Parameters without readers stay: a pass never changes the set of trained parameters.
  Graph finish() &&;

 private:
  const Graph& old_;
  Graph result_;
  IdVector<ValueId, ValueId> values_;
  IdVector<NodeId, NodeId> nodes_;
};

}  // namespace xrun
