// Tests: tests/planner/verify/verify_module_test.cpp
#include "planner/program/head_plan.h"

#include <algorithm>

#include "graph/layouts/head_shape.h"
#include "graph/settings/group_rules.h"
#include "planner/program/buffer_sizes.h"

namespace xrun::planner {
namespace {

// Finds the loss, the metrics and the labels of a head: the head nodes that read its logits.
Status find_readers(const Graph& graph, std::span<const NodeId> head_nodes, bool training, HeadPlan& plan) {
  const auto take_label = [&](const Node& node) -> Status {
    if (node.inputs.size() < 2) {
      return {};
    }
    if (plan.label.valid() && plan.label != node.inputs[1]) {
      return Error{ErrorKind::kContent, "XG0198", "loss and metrics of one head compare with different labels",
                   "give the second label a head of its own", node.span};
    }
    plan.label = node.inputs[1];
    return {};
  };
  for (const NodeId id : head_nodes) {
    const Node& node = graph.node(id);
    if (node.inputs.empty() || node.inputs[0] != plan.logits) {
      continue;
    }
    if (node.op->metric_k != nullptr) {
      // Lists of the best classes are outputs, which are not read in training.
      if (training && node.inputs.size() == 1) {
        continue;
      }
      plan.metrics.push_back(id);
      plan.top_k = std::max(plan.top_k, node.op->metric_k(node.attrs));
      XRUN_TRY(take_label(node));
    } else if (node.op->margin != nullptr) {
      if (plan.loss.valid()) {
        return Error{ErrorKind::kContent, "XG0198", "two losses read one head",
                     "give the second loss a head of its own", node.span};
      }
      plan.loss = id;
      plan.row_factor = node.inputs.size() > 2 ? node.inputs[2] : ValueId();  // graph/passes/weigh_loss.cpp
      XRUN_TRY(take_label(node));
    } else {
      return Error{ErrorKind::kContent, "XG0198",
                   "`" + std::string(node.op->name) + "` of a sharded head cannot be planned yet",
                   "heads take losses, `accuracy` and `topk`", node.span};
    }
  }
  return {};
}

}  // namespace

Result<HeadPlan> plan_head(const Module& module, std::span<const NodeId> head_nodes, size_t head, int64_t rows) {
  const Graph& graph = module.graph;
  const TrainSpec& train = module.train;
  const bool training = !graph.param_grads.empty();
  const Head& what = graph.heads[head];
  const Node& node = graph.node(what.node);
  const TensorType& weight = graph.value(node.inputs[1]).type;
  HeadPlan plan{.head = static_cast<int>(head),
                .node = what.node,
                .feature = node.inputs[0],
                .logits = node.outputs[0],
                .weight = graph.value(node.inputs[1]).param,
                .classes = weight.dims[0],
                .dim = weight.dims[1],
                .class_block = class_blocks(module, head).size,
                .rows = rows,
                .top_k = training ? 1 : kShownClasses,
                .bf16 = graph.value(node.inputs[0]).type.dtype == DType::kBF16};
  if (node.op->head(node.attrs).bias) {
    plan.bias = graph.value(node.inputs[2]).param;
  }
  for (const NamedValue& input : graph.inputs) {
    if (training && input.name == what.name + ".dx") {
      plan.feature_grad = input.value;
    }
  }
  XRUN_TRY(find_readers(graph, head_nodes, training, plan));
  plan.row_weight = row_weight_of(module, plan.loss);
  plan.top_k = std::min(plan.top_k, plan.classes);
  const RowRules rules = row_rules(train, graph.param(plan.weight).name);
  plan.weights = rules.weights;
  plan.states = training ? rules.states : RowFormat::kF32;
  plan.state_count = training ? std::max(2, static_cast<int>(optimizer_states(module).size())) : 2;
  if (const ActiveSpec& active = train.active_classes;
      training && plan.loss.valid() && active.of(plan.classes) < plan.classes) {
    if (graph.value(plan.label).producer.valid()) {
      return Error{
          ErrorKind::kContent, "XG0198",
          "the active classes of a step are selected by its labels before the model runs, but the labels of `" +
              what.name + "` are computed by the model",
          "give the loss labels that the data has, or leave `active_classes` out", active.span};
    }
    plan.active = active.of(plan.classes);
    plan.neighbours = active.neighbours;
    plan.exact_graph = active.exact;
    plan.probes = active.probes;
    plan.log_q = active.log_q;
    plan.untouched = rules.untouched;
  }
  plan.mapped = rules.rows == RowPlace::kMapped && plan.classes >= kLeastMappedClasses &&
                (training ? plan.active > 0 : train.active_classes.of(plan.classes) < plan.classes);
  plan.frozen = training && graph.param(plan.weight).frozen;
  plan.update_sweep = training && plan.loss.valid() && !plan.frozen && needs_update_sweep(train, rows);
  return plan;
}

double row_weight_of(const Module& module, NodeId loss) {
  return loss.valid() ? module.train.row_weight(module.graph.node(loss).outputs[0]) : module.train.row_weight();
}

bool needs_update_sweep(const TrainSpec& train, int64_t rows) {
  return rows < train.batch || train.heads_wait_for_sums();
}

}  // namespace xrun::planner
