// Tests: tests/cases/outputs_test.cpp, tests/runtime/cli/commands/command_test.cpp
#include "runtime/cli/predict/ranking.h"

#include <algorithm>

#include "graph/base/errors.h"
#include "planner/program/head_plan.h"

namespace xrun::cli {
namespace {

// The input with the true classes of a loss. No operator computes class numbers for a loss, so they are an input.
std::string label_of(const Graph& graph, const Node& loss) {
  const auto input = std::ranges::find(graph.inputs, loss.inputs[1], &NamedValue::value);
  XRUN_CHECK(input != graph.inputs.end(), "the label of a loss is computed");
  return input->name;
}

// The losses over classes, one for each value of logits: first those of heads, then the others in the order of the
// text.
std::vector<const Node*> losses_of(const Graph& graph) {
  std::vector<const Node*> losses;
  const auto is_head = [&](const Node* loss) { return graph.value(loss->inputs[0]).type.sharded; };
  for (const Node& node : graph.nodes) {
    const auto same = [&](const Node* other) { return other->inputs[0] == node.inputs[0]; };
    if (node.op->margin != nullptr && std::ranges::none_of(losses, same)) {
      losses.push_back(&node);
    }
  }
  std::ranges::stable_partition(losses, is_head);
  return losses;
}

// The dense logits that a loss reads, if they are an output. The loss, the metrics and their logits are found in the
// graph before `prepare`; the output has the same name in the prepared graph.
Result<Ranking> dense_ranking(const Graph& graph, const Node& loss, const Module& prepared) {
  if (graph.value(loss.inputs[0]).type.rank() != 2) {
    return content_error(
        "XG0903",
        {"the loss compares {} positions of a sample with classes, so a sample has no single class",
         graph.value(loss.inputs[0]).type.row_elements() / graph.value(loss.inputs[0]).type.dims.back()},
        "ask for --embedding");
  }
  const auto logits = std::ranges::find(graph.outputs, loss.inputs[0], &NamedValue::value);
  if (logits == graph.outputs.end()) {
    return content_error("XG0903", "the logits of `" + std::string(loss.op->name) + "` are not an output of the model",
                         "declare them as one: output logits");
  }
  Ranking ranking{.name = logits->name, .label = label_of(graph, loss), .most = planner::kShownClasses};
  for (const Node& node : graph.nodes) {
    if (node.op->metric_k != nullptr && node.inputs[0] == logits->value) {
      ranking.most = std::max(ranking.most, node.op->metric_k(node.attrs));
    }
  }
  XRUN_ASSIGN(const MarginForm form, loss.op->margin(loss.attrs));
  ranking.from.scale = form.scale;
  ranking.from.logits = std::ranges::find(prepared.graph.outputs, logits->name, &NamedValue::name)->value;
  ranking.classes = prepared.graph.value(*ranking.from.logits).type.row_elements();
  ranking.most = std::min(ranking.most, ranking.classes);
  return ranking;
}

// The logits of a sharded head; nullopt if the loss reads dense logits.
std::optional<Ranking> head_ranking(const Graph& graph, const Node& loss, const PlannedModel& planned) {
  const planner::Program& program = planned.plan.inference;
  const Graph& prepared = planned.prepared.inference.graph;
  for (const Head& head : graph.heads) {
    if (loss.inputs[0] != graph.node(head.node).outputs[0]) {
      continue;
    }
    for (size_t i = 0; i < program.heads.size(); ++i) {
      if (prepared.heads[static_cast<size_t>(program.heads[i].head)].name == head.name) {
        return Ranking{.name = head.name,
                       .label = label_of(graph, loss),
                       .from = {.head = i},
                       .most = program.heads[i].top_k,
                       .classes = program.heads[i].classes};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<Ranking>> find_rankings(const PlannedModel& planned) {
  const Graph& graph = planned.model.file.module.graph;
  std::vector<Ranking> rankings;
  for (const Node* loss : losses_of(graph)) {
    if (auto head = head_ranking(graph, *loss, planned)) {
      rankings.push_back(std::move(*head));
      continue;
    }
    auto dense = dense_ranking(graph, *loss, planned.prepared.inference);
    if (dense.ok()) {
      rankings.push_back(std::move(dense).value());
    } else if (rankings.empty()) {
      return dense.error();
    }
  }
  if (rankings.empty()) {
    return content_error("XG0903", "the model's loss has no classes, so there are none to name", "ask for --embedding");
  }
  return rankings;
}

std::string label_input(const Module& checked) {
  const Graph& graph = checked.graph;
  const auto losses = losses_of(graph);
  if (!losses.empty()) {
    return label_of(graph, *losses[0]);
  }
  const auto label =
      std::ranges::find_if(graph.inputs, [&](const NamedValue& x) { return graph.value(x.value).type.classes > 0; });
  return label == graph.inputs.end() ? "" : label->name;
}

}  // namespace xrun::cli
