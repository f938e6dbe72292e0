// Tests: tests/planner/search/chain_test.cpp, tests/planner/planner_test.cpp
#include "planner/search/heads.h"

#include <algorithm>
#include <map>

#include "planner/program/buffer_sizes.h"
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

Result<std::vector<HeadPlan>> plan_heads(const Module& module, const Chain& chain, const Machine& machine, int64_t rows,
                                         int head_devices) {
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
    plan.shards = place_shards(plan.head, plan.blocks(), shard_devices(machine, hint, head_devices));
    plans.push_back(std::move(plan));
  }
  return plans;
}

namespace {

// The work of the shards of a head on one device in a pass.
struct DeviceWork {
  HeadSweep sweep;
  double kept = 0;  // number of classes whose logits are kept for the backward pass
};

// Returns the work of a head on each device.
std::vector<DeviceWork> work_by_device(const HeadPlan& head, int devices, int states) {
  std::vector<DeviceWork> all(static_cast<size_t>(devices), {.sweep = {.rows = static_cast<double>(head.rows),
                                                                       .dim = static_cast<double>(head.dim),
                                                                       .bf16 = head.bf16,
                                                                       .apart = head.active > 0,
                                                                       .weights = head.weights,
                                                                       .state_format = head.states,
                                                                       .states = states}});
  const double share = head.active > 0 ? static_cast<double>(head.active) / static_cast<double>(head.classes) : 1.0;
  for (const HeadShard& shard : head.shards) {
    DeviceWork& work = all[static_cast<size_t>(shard.device)];
    work.sweep.classes += share * static_cast<double>(shard.row_end - shard.row_begin);
    work.sweep.blocks += static_cast<double>(head.blocks().of_rows({shard.row_begin, shard.row_end}).size());
    work.kept += share * static_cast<double>(head.kept_classes(shard));
  }
  return all;
}

HeadTimes times_on(const HeadPlan& head, DeviceWork work, const CostModel& cost, int64_t batch, int workers) {
  HeadTimes times;
  HeadSweep& sweep = work.sweep;
  if (sweep.classes == 0) {
    return times;
  }
  // The forward pass copies kept logits to memory; the backward pass copies them back instead of computing them again.
  const Seconds copy = cost.sweep(static_cast<Bytes>(work.kept * sweep.rows) * 4, workers);
  times.forward = cost.head(sweep, workers) + copy;
  sweep.updates = !head.update_sweep && !head.frozen;
  sweep.macs = (sweep.updates ? kHeadFusedMacs : kHeadBackwardMacs) - work.kept / sweep.classes;
  times.backward = cost.head(sweep, workers) + copy;
  if (head.update_sweep) {
    sweep.rows = static_cast<double>(batch);
    sweep.macs = kHeadUpdateMacs;
    sweep.updates = true;
    times.update = cost.head(sweep, workers);
  }
  if (head.active > 0) {
    times.selection = cost.selection(static_cast<int64_t>(sweep.classes), batch);
  }
  return times;
}

}  // namespace

TrainingHeads training_heads(const Module& module) {
  return {.batch = module.train.batch, .states = static_cast<int>(optimizer_states(module).size())};
}

HeadTimes head_times(const std::vector<HeadPlan>& heads, const CostModel& cost, const TrainingHeads& training) {
  HeadTimes times;
  const Machine& machine = cost.machine();
  for (const HeadPlan& head : heads) {
    HeadTimes slowest;
    const std::vector<DeviceWork> work = work_by_device(head, machine.devices, training.states);
    for (int d = 0; d < machine.devices; ++d) {
      const HeadTimes own = times_on(head, work[static_cast<size_t>(d)], cost, training.batch, machine.threads_of(d));
      slowest.forward = std::max(slowest.forward, own.forward);
      slowest.backward = std::max(slowest.backward, own.backward);
      slowest.update = std::max(slowest.update, own.update);
      slowest.selection = std::max(slowest.selection, own.selection);
    }
    times.forward += slowest.forward;
    if (training.trains) {
      times.backward += slowest.backward;
      times.update += slowest.update;
      times.selection += slowest.selection;
    }
  }
  return times;
}

// A program divides the time of the slowest device by the rows of each device (Emitter::share). The time of a pass is
// linear in the number of classes whose logits are kept, so it is least if none or all are kept.
LeastHeadTimes least_head_times(const HeadPlan& head, const CostModel& cost, const TrainingHeads& training) {
  HeadPlan kept = head;
  for (HeadShard& shard : kept.shards) {
    shard.kept_blocks = kept.blocks().of_rows({shard.row_begin, shard.row_end}).size();
  }
  HeadPlan plain = head;
  for (HeadShard& shard : plain.shards) {
    shard.kept_blocks = 0;
  }
  const Machine& machine = cost.machine();
  const auto devices = static_cast<size_t>(machine.devices);
  const std::vector<DeviceWork> of_plain = work_by_device(plain, machine.devices, training.states);
  const std::vector<DeviceWork> of_kept = work_by_device(kept, machine.devices, training.states);
  std::vector<int64_t> rows(devices, 0);
  for (const HeadShard& shard : head.shards) {
    rows[static_cast<size_t>(shard.device)] += shard.row_end - shard.row_begin;
  }
  Seconds pass = 0;
  Seconds update = 0;
  for (size_t d = 0; d < devices; ++d) {
    const int workers = machine.threads_of(static_cast<int>(d));
    const HeadTimes none = times_on(plain, of_plain[d], cost, training.batch, workers);
    const HeadTimes all = times_on(kept, of_kept[d], cost, training.batch, workers);
    pass = std::max(pass, std::min(none.forward + none.backward, all.forward + all.backward));
    update = std::max(update, none.update);
  }
  const auto most = static_cast<double>(std::max<int64_t>(1, std::ranges::max(rows)));
  LeastHeadTimes times;
  for (const int64_t own : rows) {
    times.pass.push_back(pass * static_cast<double>(own) / most);
    times.update.push_back(update * static_cast<double>(own) / most);
  }
  return times;
}

}  // namespace xrun::planner
