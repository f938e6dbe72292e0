// The loss of a mixed row is share(a) * loss(a) + share(b) * loss(b) for its two labels a and b. The pass repeats those
// operators of a term that depend on a label, with the partner label in its place, and adds the two values of each row.
// Logits do not depend on a label, so they are computed once.
// Tests: tests/lang/lower/lower_mix_test.cpp, tests/runtime/runs/mixed_runs_test.cpp
#include <algorithm>

#include "graph/layouts/head_values.h"
#include "graph/layouts/mixed_labels.h"
#include "graph/passes/passes.h"

namespace xrun {
namespace {

// For values of the graph before the pass: the value that takes its place in the loss of the partner label; invalid for
// values that do not depend on a label.
using Partners = IdVector<ValueId, ValueId>;

// Adds the partner of each label that the loss reads, and of the class weights.
Partners add_partner_inputs(Graph& graph, const IdVector<ValueId, bool>& read, const TrainSpec& train) {
  Partners partners(graph.values.size(), ValueId());
  const std::vector<NamedValue> inputs = graph.inputs;
  for (const NamedValue& input : inputs) {
    const TensorType type = graph.value(input.value).type;
    const bool is_weight = !train.class_input.empty() && input.name == train.weight_input();
    if (read[input.value] && (type.classes > 0 || is_weight)) {
      const std::string name = is_weight ? partner_weight(train.class_input) : partner_label(input.name);
      partners[input.value] = graph.add_input(name, type);
    }
  }
  return partners;
}

// Repeats the nodes that the loss reads and that depend on a label.
Status repeat_nodes(Graph& graph, const IdVector<ValueId, bool>& read, Partners& partners) {
  const size_t count = graph.nodes.size();
  for (size_t i = 0; i < count; ++i) {
    const Node node = graph.nodes[i];  // a copy, since new nodes move the others
    const auto depends = [&](ValueId input) { return partners[input].valid(); };
    const bool is_read = std::ranges::any_of(node.outputs, [&](ValueId output) { return read[output]; });
    if (!is_read || std::ranges::none_of(node.inputs, depends)) {
      continue;
    }
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      input = depends(input) ? partners[input] : input;
    }
    XRUN_CHECK(std::ssize(node.inputs) == node.operands, "weights of its own in a loss of mixed rows");
    XRUN_ASSIGN(const NodeId made,
                call_op(graph, *node.op, std::move(inputs), node.attrs, node.path + ".partner", node.span));
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      partners[node.outputs[output]] = graph.node(made).outputs[output];
    }
  }
  return {};
}

}  // namespace

Result<Graph> mix_loss(Graph graph, const OpRegistry& registry, const TrainSpec& train, const DataSpec& data) {
  const DataBinding* mixed = mixed_binding(data);
  if (mixed == nullptr || draws_label(*mixing_stage(*mixed)) || graph.loss.empty()) {
    return graph;
  }
  const auto read = values_of_loss(graph);
  Partners partners = add_partner_inputs(graph, read, train);
  for (const LossTerm& term : graph.loss) {
    XRUN_CHECK(!head_of_loss(graph, graph.value(term.rows).producer).valid(), "a head whose rows have two labels");
  }
  XRUN_TRY(repeat_nodes(graph, read, partners));
  const OpDef* mul = registry.find("mul");
  const OpDef* add = registry.find("add");
  XRUN_CHECK(mul != nullptr && add != nullptr, "mixed rows need the operators `mul` and `add`");
  const TensorType shares{.dtype = DType::kF32, .dims = {kBatch}};
  const ValueId own_share = graph.add_input(label_share(mixed->target), shares);
  const ValueId other_share = graph.add_input(partner_share(mixed->target), shares);
  for (LossTerm& term : graph.loss) {
    const ValueId other = partners[term.rows];
    if (!other.valid()) {
      continue;  // the shares add up to 1, so a term without a label stays
    }
    const Node made_by = graph.node(graph.value(term.rows).producer);
    const auto call = [&](const OpDef& op, ValueId a, ValueId b, const char* name) -> Result<ValueId> {
      XRUN_ASSIGN(const NodeId made, call_op(graph, op, {a, b}, {}, made_by.path + name, made_by.span));
      return graph.node(made).outputs[0];
    };
    XRUN_ASSIGN(const ValueId own, call(*mul, term.rows, own_share, ".share"));
    XRUN_ASSIGN(const ValueId partner, call(*mul, other, other_share, ".partner_share"));
    XRUN_ASSIGN(term.rows, call(*add, own, partner, ".mixed"));
  }
  return graph;
}

}  // namespace xrun
