#include "planner/heads.h"

#include <algorithm>

#include "graph/head_shape.h"
#include "planner/mesh.h"

namespace xrun::planner {
namespace {

// Best classes kept for `predict`, at least.
constexpr int64_t kShownClasses = 5;

// The loss, the metrics and the labels of a head: the gang nodes that read its logits.
Status find_readers(const Graph& graph, std::span<const NodeId> gang, bool training, HeadPlan& plan) {
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
  for (const NodeId id : gang) {
    const Node& node = graph.node(id);
    if (node.inputs.empty() || node.inputs[0] != plan.logits) {
      continue;
    }
    if (node.op->metric_k != nullptr) {
      // Lists of the best classes are outputs, which nobody reads in training.
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
      XRUN_TRY(take_label(node));
    } else {
      return Error{ErrorKind::kContent, "XG0198",
                   "`" + std::string(node.op->name) + "` of a sharded head cannot be planned yet",
                   "heads take losses, `accuracy` and `topk`", node.span};
    }
  }
  return {};
}

const ShardHint* find_hint(const Module& module, const std::string& head) {
  for (const ShardHint& hint : module.schedule.shards) {
    if (hint.head == head) {
      return &hint;
    }
  }
  return nullptr;
}

}  // namespace

Result<HeadPlan> plan_head(const Module& module, std::span<const NodeId> gang, size_t head, int64_t rows) {
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
                .class_block = class_block(weight.dims[0]),
                .rows = rows,
                .top_k = training ? 1 : kShownClasses,
                .bf16 = graph.value(node.inputs[0]).type.dtype == DType::kBF16,
                .row_weight = train.reduce_sum ? 1.0 : 1.0 / static_cast<double>(train.batch)};
  if (node.op->head(node.attrs).bias) {
    plan.bias = graph.value(node.inputs[2]).param;
  }
  for (const NamedValue& input : graph.inputs) {
    if (training && input.name == what.name + ".dx") {
      plan.feature_grad = input.value;
    }
  }
  XRUN_TRY(find_readers(graph, gang, training, plan));
  plan.top_k = std::min(plan.top_k, plan.classes);
  plan.frozen = training && graph.param(plan.weight).frozen;
  plan.update_sweep = training && plan.loss.valid() && !plan.frozen &&
                      (rows < train.batch || (train.clip.kind == ClipSpec::kNorm && train.clip.heads));
  return plan;
}

Result<std::vector<HeadPlan>> plan_heads(const Module& module, const Chain& chain, int devices, int64_t rows) {
  const Graph& graph = module.graph;
  for (const ShardHint& hint : module.schedule.shards) {
    if (std::none_of(graph.heads.begin(), graph.heads.end(), [&](const Head& h) { return h.name == hint.head; })) {
      return Error{
          ErrorKind::kContent, "XG0604", "`shard " + hint.head + "` names no head of the model",
          graph.heads.empty() ? "the model has no head: leave the hint out" : "its heads: " + graph.heads[0].name,
          hint.span};
    }
  }
  std::vector<HeadPlan> plans;
  for (size_t i = 0; i < graph.heads.size(); ++i) {
    XRUN_ASSIGN(HeadPlan plan, plan_head(module, chain.gang, i, rows));
    const ShardHint* hint = find_hint(module, graph.heads[i].name);
    plan.shards = place_shards(plan.head, plan.classes, hint != nullptr ? static_cast<int>(hint->shards) : 0, devices);
    plans.push_back(std::move(plan));
  }
  return plans;
}

HeadTimes head_times(const std::vector<HeadPlan>& heads, const CostModel& cost, int64_t batch, bool training) {
  HeadTimes times;
  const Machine& machine = cost.machine();
  for (const HeadPlan& head : heads) {
    std::vector<double> classes(static_cast<size_t>(machine.devices), 0);
    for (const HeadShard& shard : head.shards) {
      classes[static_cast<size_t>(shard.device)] += static_cast<double>(shard.row_end - shard.row_begin);
    }
    HeadTimes slowest;
    for (int d = 0; d < machine.devices; ++d) {
      const double macs = classes[static_cast<size_t>(d)] * static_cast<double>(head.dim);
      const double rows = static_cast<double>(head.rows);
      const int workers = machine.threads_of(d);
      slowest.forward = std::max(slowest.forward, cost.head(macs * rows * kHeadForwardMacs, workers));
      const double each = head.update_sweep || head.frozen ? kHeadBackwardMacs : kHeadFusedMacs;
      slowest.backward = std::max(slowest.backward, cost.head(macs * rows * each, workers));
      if (head.update_sweep) {
        slowest.update =
            std::max(slowest.update, cost.head(macs * static_cast<double>(batch) * kHeadUpdateMacs, workers));
      }
    }
    times.forward += slowest.forward;
    if (training) {
      times.backward += slowest.backward;
      times.update += slowest.update;
    }
    const Bytes features = head.rows * head.dim * 4;
    const int members = static_cast<int>(std::min<size_t>(head.shards.size(), static_cast<size_t>(machine.devices)));
    times.collectives += cost.all_gather(features, members) + cost.all_gather(head.rows * 16 * members, members) +
                         (training ? cost.reduce_scatter(features * members, members) : 0.0);
  }
  return times;
}

}  // namespace xrun::planner
