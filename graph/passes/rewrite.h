// Rewriter: what all passes share: an old graph is walked in order and a new one grows, with a map of values and nodes.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

class Rewriter {
 public:
  // Starts with copies of all inputs and parameters.
  explicit Rewriter(const Graph& old);

  const Graph& old() const { return old_; }
  Graph& result() { return result_; }

  // The new value of an old one; the old one must have been copied or replaced.
  ValueId map(ValueId id) const;
  bool has(ValueId id) const { return values_[static_cast<size_t>(id.index)].valid(); }
  void replace(ValueId old_value, ValueId new_value) { values_[static_cast<size_t>(old_value.index)] = new_value; }

  // Copies a node with mapped inputs; types of outputs are taken over, and infer_types may run later.
  NodeId copy(NodeId id);
  NodeId copy(NodeId id, std::vector<ValueId> new_inputs, Attrs attrs);

  // Maps outputs, bindings, heads, loss, metrics and gradients, and gives the new graph. Bindings whose value is gone
  // are dropped. Parameters that nothing reads any more stay: a pass never changes what is trained.
  Graph finish() &&;

 private:
  const Graph& old_;
  Graph result_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace xrun
