// Splits the loss into terms:
//   1. find_computed marks the values that operators compute from losses of sharded heads.
//   2. split_sums goes through the marked values from last to first, and multiplies the factor of a sum or a product
//      with a number into its operands. The values that are reached and not marked are the terms.
//   3. With partial labels, find_mixed marks the sums of parts that read different labels, and step 2 is repeated.
// Factors are collected per value, so a value that is added several times is one term.
// Tests: tests/lang/lower/lower_loss_test.cpp, tests/lang/lower/lower_partial_test.cpp
#include "graph/passes/split_loss.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/layouts/head_values.h"
#include "graph/layouts/partial_labels.h"

namespace xrun {
namespace {

std::string name_of_head(const Graph& graph, NodeId node) {
  const auto head = std::ranges::find(graph.heads, node, &Head::node);
  return head == graph.heads.end() ? std::string("head") : "`" + head->name + "`";
}

// Marks the values that operators compute from losses of heads. The losses themselves are not marked.
IdVector<ValueId, bool> find_computed(const Graph& graph) {
  IdVector<ValueId, bool> computed(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(node.inputs, [&](ValueId input) {
      return computed[input] || head_of_loss(graph, graph.value(input).producer).valid();
    });
    for (const ValueId output : node.outputs) {
      computed[output] = any;
    }
  }
  return computed;
}

// The factors with which an operator adds up its inputs; nullopt if the operator does anything else.
std::optional<std::vector<double>> factors_of(const Node& node) {
  if (node.op->name == "add") {
    return std::vector<double>{1, 1};
  }
  if (node.op->name == "sub") {
    return std::vector<double>{1, -1};
  }
  if (node.op->name == "neg") {
    return std::vector<double>{-1};
  }
  if (node.op->name == "scale_shift" && node.attrs.real("shift", 0) == 0) {
    return std::vector<double>{node.attrs.real("scale", 1)};
  }
  return std::nullopt;
}

Error not_a_sum(const Node& node) {
  const bool shifts = node.op->name == "scale_shift";
  return {ErrorKind::kContent, "XG0504",
          shifts                   ? "a number is added to the loss of a sharded head"
          : node.op->name == "map" ? "the loss of a sharded head is used in more than a weighted sum"
                                   : "`" + std::string(node.op->name) + "` is applied to the loss of a sharded head",
          shifts ? "leave it out: it changes no weight"
                 : "only multiply such a loss by numbers and add losses: arcface(id, label) + 0.5 * mse(x, y)",
          node.span};
}

Status check_terms(const Graph& graph, const std::vector<LossTerm>& terms) {
  std::vector<NodeId> heads;
  for (const LossTerm& term : terms) {
    const NodeId made_by = graph.value(term.rows).producer;
    const NodeId head = head_of_loss(graph, made_by);
    if (!made_by.valid()) {
      return Error{ErrorKind::kContent, "XG0504", "an input is added to the loss of a sharded head",
                   "leave it out: it changes no weight"};
    }
    if (!std::isfinite(static_cast<float>(term.factor))) {
      return Error{ErrorKind::kContent, "XG0504", "a factor of the loss is not finite in f32",
                   "multiply by a smaller number", graph.node(made_by).span};
    }
    if (head.valid() && std::ranges::find(heads, head) != heads.end()) {
      return Error{ErrorKind::kContent, "XG0504", "two losses read the head " + name_of_head(graph, head),
                   "give the second loss a head of its own, or keep one of them", graph.node(made_by).span};
    }
    heads.push_back(head);
  }
  return {};
}

// Marks sums whose operands are computed from different partial labels.
IdVector<ValueId, bool> find_mixed(const Graph& graph, const IdVector<ValueId, LabelsRead>& read) {
  IdVector<ValueId, bool> mixed(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    const auto by = factors_of(node);
    const auto is_row = [&](ValueId input) { return graph.value(input).type == graph.value(node.outputs[0]).type; };
    if (by && by->size() == node.inputs.size() && std::ranges::all_of(node.inputs, is_row)) {
      mixed[node.outputs[0]] = std::ranges::any_of(node.inputs, [&](ValueId input) {
        return read[input].count == LabelsRead::kSeveral || read[input] != read[node.inputs[0]];
      });
    }
  }
  return mixed;
}

// Splits a loss into the unmarked values that its marked sums add up. A loss without marked values stays unchanged.
Result<std::vector<LossTerm>> split_sums(const Graph& graph, const std::vector<LossTerm>& loss,
                                         const IdVector<ValueId, bool>& computed) {
  if (std::ranges::none_of(loss, [&](const LossTerm& term) { return computed[term.rows]; })) {
    return loss;
  }
  IdVector<ValueId, double> factors(graph.values.size(), 0);
  IdVector<ValueId, bool> reached(graph.values.size(), false);
  for (const LossTerm& term : loss) {
    factors[term.rows] += term.factor;
    reached[term.rows] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.outputs.empty() || !reached[node.outputs[0]] || !computed[node.outputs[0]]) {
      continue;
    }
    const auto by = factors_of(node);
    if (!by || by->size() != node.inputs.size()) {
      return not_a_sum(node);
    }
    for (size_t input = 0; input < by->size(); ++input) {
      factors[node.inputs[input]] += factors[node.outputs[0]] * (*by)[input];
      reached[node.inputs[input]] = true;
    }
  }
  std::vector<LossTerm> terms;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ValueId value(i);
    if (reached[value] && !computed[value]) {
      terms.push_back({value, factors[value]});
    }
  }
  XRUN_TRY(check_terms(graph, terms));
  return terms;
}

// Checks that each term reads at most one partial label, since it leaves out the rows without that label.
Status check_labels(const Graph& graph, const std::vector<LossTerm>& terms, const IdVector<ValueId, LabelsRead>& read) {
  for (const LossTerm& term : terms) {
    if (read[term.rows].count == LabelsRead::kSeveral) {
      return Error{ErrorKind::kContent, "XG0504", "losses of several labels are combined by more than a sum",
                   "write the loss as a sum in which each part reads one label with `ignore`, so that each part leaves "
                   "out its own rows: softmax_ce(a, label) + softmax_ce(b, other)",
                   graph.node(graph.value(term.rows).producer).span};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<LossTerm>> split_loss(const Graph& graph, const std::vector<LossTerm>& loss,
                                         const std::vector<NamedValue>& partial) {
  XRUN_ASSIGN(std::vector<LossTerm> terms, split_sums(graph, loss, find_computed(graph)));
  if (partial.empty()) {
    return terms;
  }
  const auto read = labels_read(graph, partial);
  XRUN_ASSIGN(terms, split_sums(graph, terms, find_mixed(graph, read)));
  XRUN_TRY(check_labels(graph, terms, read));
  return terms;
}

std::vector<LossTerm> merge_terms(const std::vector<LossTerm>& loss) {
  std::vector<LossTerm> merged;
  for (const LossTerm& term : loss) {
    const auto known = std::ranges::find(merged, term.rows, &LossTerm::rows);
    if (known == merged.end()) {
      merged.push_back(term);
    } else {
      known->factor += term.factor;
    }
  }
  return merged;
}

}  // namespace xrun
