// Sums the gradients of broadcast operands and of parameters in the operator that computes them.
#include <algorithm>

#include "graph/base/check.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "graph/types/scalar_expr.h"

namespace xrun {
namespace {

class SumFuser {
 public:
  SumFuser(const Graph& graph, const OpDef& map_sum)
      : graph_(graph), map_sum_(map_sum), readers_(sole_readers(graph)), rewriter_(graph) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeId id(i);
      if (gone_[id]) {
        continue;
      }
      const std::vector<NodeId> sums = sums_behind(id);
      if (std::ranges::none_of(sums, &NodeId::valid)) {
        rewriter_.copy(id);
      } else {
        emit(id, sums);
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  // For each result of an element-wise gradient, the operator that sums it, if nothing else reads the result. A sum
  // over the samples is fused only if the gradient has no other result, since it is not computed in parts.
  std::vector<NodeId> sums_behind(NodeId id) const {
    const Node& node = graph_.node(id);
    std::vector<NodeId> sums(node.outputs.size());
    if (node.phase != Phase::kBackward || !node.op->fuses) {
      return sums;
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const NodeId reader = readers_[node.outputs[i]];
      if (reader.valid() && graph_.node(reader).op->sums && graph_.node(reader).forward == node.forward &&
          (sums.size() == 1 || graph_.value(graph_.node(reader).outputs[0]).type.has_batch())) {
        sums[i] = reader;
      }
    }
    return sums;
  }

  void emit(NodeId id, const std::vector<NodeId>& sums) {
    const Node& node = graph_.node(id);
    Result<ScalarExpr> expr = parse_scalar_expr(node.op->expr(node.attrs));
    XRUN_CHECK(expr.ok(), "an element-wise operator has a function that cannot be read");
    Attrs attrs;
    std::vector<ScalarId> results = expr->results();
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!sums[i].valid()) {
        continue;
      }
      attrs.set("dims" + std::to_string(i), graph_.node(sums[i]).attrs.integers("dims"));
      // Rounds each term as it was rounded when it was stored.
      results[i] = expr->rounded(results[i], graph_.value(node.outputs[i]).type.dtype);
    }
    expr->set_results(std::move(results));
    attrs.set("y", to_text(*expr));
    const NodeId made = rewriter_.copy(id, rewriter_.map(node.inputs), std::move(attrs));
    Node& fused = rewriter_.result().node(made);
    fused.op = &map_sum_;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].valid()) {
        const ValueId sum = graph_.node(sums[i]).outputs[0];
        rewriter_.result().value(fused.outputs[i]).type = graph_.value(sum).type;
        rewriter_.replace(sum, fused.outputs[i]);
        gone_[sums[i]] = true;
      }
    }
  }

  const Graph& graph_;
  const OpDef& map_sum_;
  IdVector<ValueId, NodeId> readers_;
  IdVector<NodeId, bool> gone_ = IdVector<NodeId, bool>(graph_.nodes.size(), false);
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> fuse_sums(Graph graph, const OpRegistry& registry) {
  const OpDef* const map_sum = registry.find("map.sum");
  return map_sum == nullptr ? std::move(graph) : SumFuser(graph, *map_sum).run();
}

}  // namespace xrun
