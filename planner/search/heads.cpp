#include "planner/search/heads.h"

#include <algorithm>

#include "planner/search/mesh.h"

namespace xrun::planner {
namespace {

const ShardHint* find_hint(const Module& module, const std::string& head) {
  for (const ShardHint& hint : module.schedule.shards) {
    if (hint.head == head) {
      return &hint;
    }
  }
  return nullptr;
}

}  // namespace

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
    XRUN_ASSIGN(HeadPlan plan, plan_head(module, chain.head_nodes, i, rows));
    const ShardHint* hint = find_hint(module, graph.heads[i].name);
    plan.shards = place_shards(plan.head, plan.blocks(), hint != nullptr ? static_cast<int>(hint->shards) : 0, devices);
    plans.push_back(std::move(plan));
  }
  return plans;
}

HeadTimes head_times(const std::vector<HeadPlan>& heads, const CostModel& cost, int64_t batch, bool training) {
  HeadTimes times;
  const Machine& machine = cost.machine();
  for (const HeadPlan& head : heads) {
    std::vector<double> classes(static_cast<size_t>(machine.devices), 0);
    std::vector<int64_t> kept(static_cast<size_t>(machine.devices), 0);
    for (const HeadShard& shard : head.shards) {
      classes[static_cast<size_t>(shard.device)] += static_cast<double>(shard.row_end - shard.row_begin);
      kept[static_cast<size_t>(shard.device)] += head.kept_classes(shard);
    }
    HeadTimes slowest;
    for (int d = 0; d < machine.devices; ++d) {
      const double macs = classes[static_cast<size_t>(d)] * static_cast<double>(head.dim);
      const double rows = static_cast<double>(head.rows);
      const int workers = machine.threads_of(d);
      // Kept logits are copied out, and copied back instead of being made again.
      const int64_t kept_classes = kept[static_cast<size_t>(d)];
      const double kept_macs = static_cast<double>(kept_classes) * static_cast<double>(head.dim);
      const Seconds copy = cost.sweep(kept_classes * head.rows * 4, workers);
      slowest.forward = std::max(slowest.forward, cost.head(macs * rows * kHeadForwardMacs, workers) + copy);
      const double each = head.update_sweep || head.frozen ? kHeadBackwardMacs : kHeadFusedMacs;
      slowest.backward = std::max(slowest.backward, cost.head((macs * each - kept_macs) * rows, workers) + copy);
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
