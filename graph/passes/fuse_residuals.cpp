// Fuses the addition of a tensor to the result of a batch norm into the norm, whose loop then adds while it normalises.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {
namespace {

class ResidualFuser {
 public:
  ResidualFuser(const Graph& graph, const OpRegistry& registry)
      : graph_(graph),
        registry_(registry),
        consumers_(consumers_of(graph)),
        readers_(sole_readers(graph)),
        rewriter_(graph) {}

  // Copies the graph; each fused sum is emitted in place of its norm.
  Graph run() {
    IdVector<NodeId, bool> gone(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      if (gone[id]) {
        continue;
      }
      if (const NodeId sum = readers_[graph_.node(id).outputs[0]]; sum.valid() && joins(id, sum)) {
        emit(id, sum);
        gone[sum] = true;
      } else {
        rewriter_.copy(id);
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  const OpDef* pair_of(const Node& norm, const Node& sum) const {
    return registry_.find(std::string(norm.op->name) + "." + std::string(sum.op->name));
  }
  // The operand of a sum that is not its norm.
  ValueId other_of(NodeId norm, const Node& sum) const {
    return sum.inputs[sum.inputs[0] == graph_.node(norm).outputs[0] ? 1 : 0];
  }

  // Whether a norm and the sum that is its only reader become one operator. The other operand must be made before the
  // norm, so that the order of nodes, by which stages are cut, stays. No node between the norm and the sum may read
  // that operand, so that its gradients are added in an unchanged order.
  bool joins(NodeId norm, NodeId sum) const {
    const Node& node = graph_.node(norm);
    const Node& add = graph_.node(sum);
    if (pair_of(node, add) == nullptr || add.inputs.size() != 2 || add.inputs[0] == add.inputs[1] ||
        node.operands != 1 || node.attrs.has("then") || node.attrs.flag("relu", false) ||
        graph_.value(add.inputs[0]).type != graph_.value(add.inputs[1]).type) {
      return false;
    }
    const ValueId other = other_of(norm, add);
    const NodeId producer = graph_.value(other).producer;
    return (!producer.valid() || producer.index < norm.index) &&
           std::ranges::none_of(consumers_[other],
                                [&](NodeId reader) { return reader.index > norm.index && reader.index < sum.index; });
  }

  void emit(NodeId norm, NodeId sum) {
    const Node& node = graph_.node(norm);
    const Node& added = graph_.node(sum);
    std::vector<ValueId> inputs = rewriter_.map(node.inputs);
    inputs.insert(inputs.begin() + 1, rewriter_.map(other_of(norm, added)));
    Attrs attrs = node.attrs;
    for (const auto& [name, value] : added.attrs.all()) {
      attrs.set(name, value);
    }
    const NodeId made = rewriter_.copy(norm, std::move(inputs), std::move(attrs));
    Node& fused = rewriter_.result().node(made);
    fused.op = pair_of(node, added);
    fused.operands = 2;
    add_paths(fused, added);
    rewriter_.replace(added.outputs[0], fused.outputs[0]);
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  IdVector<ValueId, std::vector<NodeId>> consumers_;
  IdVector<ValueId, NodeId> readers_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> fuse_residuals(Graph graph, const OpRegistry& registry) { return ResidualFuser(graph, registry).run(); }

}  // namespace xrun
