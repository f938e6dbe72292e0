// Fuses an element-wise function into the reduction that is its only reader.
#include <algorithm>

#include "graph/base/check.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

class ReductionFuser {
 public:
  explicit ReductionFuser(const Graph& graph)
      : graph_(graph), consumers_(consumers_of(graph)), readers_(sole_readers(graph)), rewriter_(graph) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      if (is_absorbed(id)) {
        continue;
      }
      const NodeId producer =
          graph_.node(id).inputs.empty() ? NodeId() : graph_.value(graph_.node(id).inputs[0]).producer;
      if (producer.valid() && is_absorbed(producer)) {
        emit(producer, id);
      } else {
        rewriter_.copy(id);
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  // Whether the only reader of a function is a reduction that may compute it. No node between the two reads the
  // function's operands, so that their gradients are added in an unchanged order.
  bool is_absorbed(NodeId id) const {
    const Node& node = graph_.node(id);
    const NodeId reader = readers_[node.outputs[0]];
    if (!node.op->fuses || node.outputs.size() != 1 || !reader.valid()) {
      return false;
    }
    const Node& reduction = graph_.node(reader);
    if (reduction.op->takes_function == nullptr || reduction.inputs.size() != 1 ||
        !reduction.op->takes_function(graph_.value(node.outputs[0]).type, reduction.attrs)) {
      return false;
    }
    return std::ranges::none_of(node.inputs, [&](ValueId input) {
      return std::ranges::any_of(consumers_[input],
                                 [&](NodeId other) { return other.index > id.index && other.index < reader.index; });
    });
  }

  void emit(NodeId function, NodeId reduction) {
    const Node& node = graph_.node(function);
    Result<ScalarExpr> expr = parse_scalar_expr(node.op->expr(node.attrs));
    XRUN_CHECK(expr.ok(), "an element-wise operator has a function that cannot be read");
    // Rounds each element as it was rounded when it was stored.
    expr->set_results({expr->rounded(expr->results()[0], graph_.value(node.outputs[0]).type.dtype)});
    Attrs attrs = graph_.node(reduction).attrs;
    attrs.set("of", to_text(*expr));
    const NodeId made = rewriter_.copy(reduction, rewriter_.map(node.inputs), std::move(attrs));
    Node& fused = rewriter_.result().node(made);
    fused.operands = static_cast<int>(fused.inputs.size());
    add_paths(fused, node);
  }

  const Graph& graph_;
  IdVector<ValueId, std::vector<NodeId>> consumers_;
  IdVector<ValueId, NodeId> readers_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> fuse_reductions(Graph graph) { return ReductionFuser(graph).run(); }

}  // namespace xrun
