#include "runtime/cli/ranking.h"

#include <algorithm>

#include "graph/base/errors.h"
#include "planner/head_plan.h"

namespace xrun::cli {
namespace {

// The loss of the first head; of a model without heads the first loss over classes.
const Node* find_loss(const Graph& graph) {
  const auto loss = std::ranges::find_if(graph.nodes, [&](const Node& node) {
    return node.op->margin != nullptr &&
           (graph.heads.empty() || node.inputs[0] == graph.node(graph.heads[0].node).outputs[0]);
  });
  return loss == graph.nodes.end() ? nullptr : &*loss;
}

// The dense logits that the loss reads, as an output. The loss, the metrics and their logits are found in the graph
// before `prepare`; the output has the same name after it.
Result<Ranking> dense_ranking(const Module& checked, const Module& prepared) {
  const Graph& graph = checked.graph;
  const Node* loss = find_loss(graph);
  if (loss == nullptr) {
    return content_error("XG0903", "the model's loss compares with no classes, so there are none to name",
                         "ask for --embedding");
  }
  if (graph.value(loss->inputs[0]).type.rank() != 2) {
    return content_error(
        "XG0903",
        {"the loss compares {} positions of a sample with classes",
         graph.value(loss->inputs[0]).type.row_elements() / graph.value(loss->inputs[0]).type.dims.back()},
        "ask for --embedding");
  }
  const auto logits = std::ranges::find(graph.outputs, loss->inputs[0], &NamedValue::value);
  if (logits == graph.outputs.end()) {
    return content_error("XG0903", "the logits of `" + std::string(loss->op->name) + "` are no output of the model",
                         "declare them one: output logits");
  }
  Ranking ranking{.most = planner::kShownClasses};
  for (const Node& node : graph.nodes) {
    if (node.op->metric_k != nullptr && node.inputs[0] == logits->value) {
      ranking.most = std::max(ranking.most, node.op->metric_k(node.attrs));
    }
  }
  XRUN_ASSIGN(const MarginForm form, loss->op->margin(loss->attrs));
  ranking.from.scale = form.scale;
  ranking.from.logits = std::ranges::find(prepared.graph.outputs, logits->name, &NamedValue::name)->value;
  ranking.classes = prepared.graph.value(*ranking.from.logits).type.row_elements();
  ranking.most = std::min(ranking.most, ranking.classes);
  return ranking;
}

}  // namespace

Result<Ranking> find_ranking(const PlannedModel& planned) {
  const planner::Program& program = planned.plan.inference;
  if (program.heads.empty()) {
    return dense_ranking(planned.model.file.module, planned.prepared.inference);
  }
  return Ranking{.most = program.heads[0].top_k, .classes = program.heads[0].classes};
}

std::string label_input(const Module& checked) {
  const Graph& graph = checked.graph;
  const Node* loss = find_loss(graph);
  for (const NamedValue& input : graph.inputs) {
    if (loss != nullptr && input.value == loss->inputs[1]) {
      return input.name;
    }
  }
  const auto label =
      std::ranges::find_if(graph.inputs, [&](const NamedValue& x) { return graph.value(x.value).type.classes > 0; });
  return label == graph.inputs.end() ? "" : label->name;
}

}  // namespace xrun::cli
