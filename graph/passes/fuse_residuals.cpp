// A tensor that is added to a batch norm is added in the loop that normalizes.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {
namespace {

class ResidualFuser {
 public:
  ResidualFuser(const Graph& graph, const OpRegistry& registry)
      : graph_(graph), registry_(registry), consumers_(consumers_of(graph)), rewriter_(graph) {
    for (const ValueId id : results_of(graph)) {
      held_[id] = true;
    }
  }

  Graph run() {
    IdVector<NodeId, NodeId> norms(graph_.nodes.size());  // of a sum
    IdVector<NodeId, bool> gone(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      norms[NodeId(i)] = norm_of(NodeId(i));
      if (norms[NodeId(i)].valid()) {
        gone[norms[NodeId(i)]] = true;
      }
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      if (norms[id].valid()) {
        emit(norms[id], id);
      } else if (!gone[id]) {
        rewriter_.copy(id);
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  const OpDef* pair_of(const Node& norm, const Node& sum) const {
    return registry_.find(std::string(norm.op->name) + "." + std::string(sum.op->name));
  }

  // The norm that becomes one operator with a sum that alone reads it: of two the later one. None where a function lies
  // between, or the two have different types.
  NodeId norm_of(NodeId id) const {
    const Node& sum = graph_.node(id);
    NodeId norm;
    if (sum.inputs.size() != 2 || sum.inputs[0] == sum.inputs[1]) {
      return norm;
    }
    for (const ValueId input : sum.inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (!producer.valid() || held_[input] || consumers_[input].size() != 1 ||
          (norm.valid() && producer.index < norm.index)) {
        continue;
      }
      const Node& node = graph_.node(producer);
      const bool alone = node.operands == 1 && !node.attrs.has("then") && !node.attrs.flag("relu", false);
      const bool same = graph_.value(sum.inputs[0]).type == graph_.value(sum.inputs[1]).type;
      if (alone && same && node.outputs[0] == input && pair_of(node, sum) != nullptr) {
        norm = producer;
      }
    }
    return norm;
  }

  // In the place of the sum, since the other tensor may be made after the norm.
  void emit(NodeId norm, NodeId sum) {
    const Node& node = graph_.node(norm);
    const Node& added = graph_.node(sum);
    std::vector<ValueId> inputs{rewriter_.map(node.inputs[0])};
    inputs.push_back(rewriter_.map(added.inputs[added.inputs[0] == node.outputs[0] ? 1 : 0]));
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      inputs.push_back(rewriter_.map(node.inputs[i]));
    }
    Attrs attrs = node.attrs;
    for (const auto& [name, value] : added.attrs.all()) {
      attrs.set(name, value);
    }
    const NodeId made = rewriter_.copy(norm, std::move(inputs), std::move(attrs));
    Node& fused = rewriter_.result().node(made);
    fused.op = pair_of(node, added);
    fused.operands = 2;
    fused.fused_paths.push_back(added.path);
    fused.fused_paths.insert(fused.fused_paths.end(), added.fused_paths.begin(), added.fused_paths.end());
    rewriter_.replace(added.outputs[0], fused.outputs[0]);
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  IdVector<ValueId, std::vector<NodeId>> consumers_;
  IdVector<ValueId, bool> held_ = IdVector<ValueId, bool>(graph_.values.size(), false);
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> fuse_residuals(Graph graph, const OpRegistry& registry) { return ResidualFuser(graph, registry).run(); }

}  // namespace xrun
