// Fuses groups of element-wise operators into one node `map` each:
//   1. find_absorbed marks every node that its only consumer may compute. A group is a node that is not marked and the
//      marked nodes before it.
//   2. release_large_groups and release_groups_that_cost_more split groups that have too many nodes, do not fit a
//      `map`, or would make training keep more values than before.
//   3. The graph is copied in order. Marked nodes are left out, and the last node of each group becomes a `map` with
//      the expression of the whole group.
// The intermediate values of a group are then never written to memory.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/base/check.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

constexpr int kMostNodes = 64;  // most nodes of a group

// The function that the nodes of a group compute together. The results of its last node become those of the `map`.
struct Group {
  ScalarExpr expr;
  std::vector<ValueId> inputs;  // inputs in the old graph, in the order of the expression's inputs
  std::map<NodeId, std::vector<ScalarId>> nodes;
};

class MapFuser {
 public:
  MapFuser(const Graph& graph, const OpDef& map, Phase phase)
      : graph_(graph), map_(map), phase_(phase), rewriter_(graph) {}

  Result<Graph> run() {
    find_absorbed();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      if (absorbed_[id]) {
        continue;
      }
      if (absorbed_operands(id).empty()) {
        rewriter_.copy(id);
        continue;
      }
      const std::optional<Group> group = group_of(id);
      XRUN_CHECK(group.has_value(), "groups that cannot be fused are released");
      emit(id, *group);
    }
    return std::move(rewriter_).finish();
  }

 private:
  // Whether a node may absorb its operands. A function without inputs is a constant, which a larger expression would
  // compute in f64. In the forward part, functions with sqrt, acos or a power may not: their derivative can be infinite
  // at a finite result. Between separate operators the gradient of a `relu` or `clamp` then turns it into 0, but within
  // one expression it would become NaN. Gradients are not differentiated again, so the backward part has no such limit.
  bool takes_operands(const Node& node) const {
    if (!node.op->fuses || node.phase != phase_) {
      return false;
    }
    const auto expr = parse_scalar_expr(node.op->expr(node.attrs));
    return expr.ok() && !expr->inputs_read().empty() &&
           (phase_ == Phase::kBackward || std::ranges::none_of(expr->nodes(), [](const ScalarNode& n) {
              return n.op == ScalarOp::kSqrt || n.op == ScalarOp::kAcos || n.op == ScalarOp::kPow;
            }));
  }
  static bool reads_something(const Node& node) {
    const auto expr = parse_scalar_expr(node.op->expr(node.attrs));
    return expr.ok() && !expr->inputs_read().empty();
  }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Marks the nodes that their only consumer absorbs. Both must have one shape and type, so that nothing is computed
  // twice. Two nodes of the backward part must have one forward node, because a partition may cut between forward
  // nodes.
  void find_absorbed() {
    const IdVector<ValueId, NodeId> readers = sole_readers(graph_);
    absorbed_ = IdVector<NodeId, bool>(graph_.nodes.size(), false);
    // The loop starts at the end, so that the group of a consumer is known before its operands join.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      if (!node.op->fuses || node.phase != phase_ || node.outputs.size() != 1 || !readers[node.outputs[0]].valid()) {
        continue;
      }
      const Node& consumer = graph_.node(readers[node.outputs[0]]);
      absorbed_[NodeId(i)] = takes_operands(consumer) && consumer.forward == node.forward &&
                             type(node.outputs[0]) == type(consumer.outputs[0]) && reads_something(node);
    }
    release_large_groups();
    release_groups_that_cost_more();
  }

  void release_large_groups() {
    IdVector<NodeId, int> sizes(graph_.nodes.size(), 1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      for (const NodeId operand : absorbed_operands(id)) {
        sizes[id] += sizes[operand];
      }
      if (sizes[id] > kMostNodes) {
        release(id);
        sizes[id] = 1;
      }
    }
  }

  // Splits groups with more inputs than operators. For the backward pass a fused group keeps its inputs, while separate
  // operators keep about one value each, so such a group would need more memory.
  void release_groups_that_cost_more() {
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const NodeId id(i);
      if (absorbed_[id] || absorbed_operands(id).empty()) {
        continue;
      }
      const std::optional<Group> group = group_of(id);
      const auto kept =
          group && phase_ == Phase::kForward
              ? std::ranges::count_if(group->inputs, [&](ValueId input) { return !graph_.value(input).param.valid(); })
              : 0;
      if (!group || kept > static_cast<int64_t>(group->nodes.size())) {
        release(id);
      }
    }
  }

  // Makes the operands of a node separate nodes again. Nodes that these operands have absorbed stay absorbed.
  void release(NodeId id) {
    for (const NodeId operand : absorbed_operands(id)) {
      absorbed_[operand] = false;
    }
  }

  // The nodes that this node has absorbed directly: producers of its inputs, each once.
  std::vector<NodeId> absorbed_operands(NodeId id) const {
    std::vector<NodeId> operands;
    for (const ValueId input : graph_.node(id).inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (producer.valid() && absorbed_[producer] && std::ranges::find(operands, producer) == operands.end()) {
        operands.push_back(producer);
      }
    }
    return operands;
  }

  // Returns nullopt if the group exceeds the limits of a `map`, or an expression cannot be read.
  std::optional<Group> group_of(NodeId id) const {
    Group group;
    const auto results = add(id, group);
    if (!results || group.inputs.size() > static_cast<size_t>(kMostScalarInputs)) {
      return std::nullopt;
    }
    group.expr.set_results(*results);
    group.expr.prune();
    // Derivatives have a few operations for each operation and input.
    const size_t operations = group.expr.operations();
    if (operations > kMostScalarOps || 4 * group.inputs.size() * operations > kMostDerivedScalarOps) {
      return std::nullopt;
    }
    return group;
  }

  // Appends the expression of a node; operands in the group are rounded as they were in memory.
  std::optional<std::vector<ScalarId>> add(NodeId id, Group& group) const {
    if (const auto known = group.nodes.find(id); known != group.nodes.end()) {
      return known->second;
    }
    const Node& node = graph_.node(id);
    const auto own = parse_scalar_expr(node.op->expr(node.attrs));
    if (!own.ok()) {
      return std::nullopt;
    }
    std::vector<ScalarId> operands;
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (producer.valid() && absorbed_[producer]) {
        const auto operand = add(producer, group);
        if (!operand) {
          return std::nullopt;
        }
        const ScalarId result = operand->front();
        operands.push_back(group.expr.rounded(result, type(input).dtype));
        continue;
      }
      const auto known = std::ranges::find(group.inputs, input);
      operands.push_back(group.expr.input(static_cast<int>(known - group.inputs.begin())));
      if (known == group.inputs.end()) {
        group.inputs.push_back(input);
      }
    }
    return group.nodes[id] = group.expr.insert(*own, operands);
  }

  void emit(NodeId last, const Group& group) {
    const NodeId made = rewriter_.copy(last, rewriter_.map(group.inputs), Attrs{{"y", to_text(group.expr)}});
    Node& node = rewriter_.result().node(made);
    node.op = &map_;
    node.operands = static_cast<int>(group.inputs.size());
    for (const auto& [id, results] : group.nodes) {
      const Node& part = graph_.node(id);
      if (id != last && part.path != node.path) {
        node.fused_paths.push_back(part.path);
      }
      if (id != last) {
        node.fused_paths.insert(node.fused_paths.end(), part.fused_paths.begin(), part.fused_paths.end());
      }
    }
  }

  const Graph& graph_;
  const OpDef& map_;
  Phase phase_;
  Rewriter rewriter_;
  IdVector<NodeId, bool> absorbed_;  // whether the group of its consumer computes the node
};

}  // namespace

Result<Graph> fuse_maps(Graph graph, const OpRegistry& registry, Phase phase) {
  const OpDef* const map = registry.find("map");
  return map == nullptr ? Result<Graph>(std::move(graph)) : MapFuser(graph, *map, phase).run();
}

}  // namespace xrun
