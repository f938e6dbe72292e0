// It also has the facts of a setting that planner/search/search.h declares: its devices, the times of its passes in
// units of those of a row block, and its heads.
// Tests: tests/planner/search/step_estimate_test.cpp, tests/planner/search/search_test.cpp
#include "planner/search/exchange_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/program/compression_owners.h"
#include "planner/program/dx_terms.h"
#include "planner/program/links.h"

namespace xrun::planner {
namespace {

int64_t blocks_of_micro_batch(const SearchInput& input, const Setting& setting) {
  return input.module.train.batch / setting.micro_batches / input.module.train.norm_rows;
}

// Returns the number of gradient partials to which the row blocks of one micro-batch add.
int64_t meeting_partials(const SearchInput& input, const Setting& setting, int partials) {
  return input.deterministic ? std::max(1, partials / setting.micro_batches) : partials / setting.replicas;
}

bool one_pass(const Module& module, const Setting& setting) {
  if (setting.pipeline != PipelineKind::kGpipe) {
    return setting.one_head_pass;
  }
  return std::none_of(module.schedule.shards.begin(), module.schedule.shards.end(),
                      [](const ShardHint& hint) { return hint.granularity == "micro_batch"; });
}

// Adds the exchanges between nodes of a stage's replicas, on `devices`, for the sums of `bytes` of gradients.
void add_sums(const ReplicaSums& sums, const std::vector<int>& devices, Bytes bytes, LinkLoad& load) {
  for (int round = 0; round < sums.rounds(); ++round) {
    for (size_t r = 0; r < devices.size(); ++r) {
      const auto replica = static_cast<int>(r);
      const Slice slice = sums.slice(bytes / static_cast<Bytes>(sizeof(float)), round, replica);
      for (const int other : sums.members(round, replica)) {
        load.add(devices[static_cast<size_t>(other)], devices[r], slice.bytes);
      }
    }
  }
  load.add_shared(devices, devices, bytes / static_cast<Bytes>(devices.size()));
}

// Returns the devices of each stage.
std::vector<std::vector<int>> devices_of_stages(const SearchInput& input, const Setting& setting) {
  std::vector<std::vector<int>> devices;
  for (int s = 0; s < setting.stages; ++s) {
    devices.push_back(devices_of(input, setting, s));
  }
  return devices;
}

constexpr Bytes kStatistics = 16;  // bytes of the statistics of a row on a shard

// The devices that take part in the exchanges of a head.
struct Members {
  std::vector<int> shards;  // devices of the shards with rows, each once
  int all = 0;              // with the makers of the features
};

Members members_of(const HeadPlan& head, const std::vector<int>& makers) {
  std::set<int> shards;
  for (const HeadShard& shard : head.shards) {
    if (shard.row_begin < shard.row_end) {
      shards.insert(shard.device);
    }
  }
  std::set<int> all = shards;
  all.insert(makers.begin(), makers.end());
  return {{shards.begin(), shards.end()}, static_cast<int>(all.size())};
}

// The times of the exchanges of a head on the links between the nodes of a cluster; 0 if there is one node.
struct LinkTimes {
  Seconds gather = 0;
  Seconds statistics = 0;
  Seconds scatter = 0;
};

// `features` has the bytes of the features of a micro-batch from one maker.
LinkTimes link_times(const HeadPlan& head, const Machine& machine, const std::vector<int>& makers,
                     const std::vector<int>& shards, Bytes features, const std::map<int, int64_t>& partials) {
  LinkLoad gather(machine);
  LinkLoad stats(machine);
  LinkLoad scatter(machine);
  gather.add_shared(makers, shards, features);
  stats.add_shared(shards, shards, head.rows * kStatistics);
  // Every node sends its partials to each maker of the features that is on another node.
  std::map<int, int64_t> receivers;  // key: node
  for (const int maker : makers) {
    receivers[machine.node_of(maker)] += 1;
  }
  const auto all = static_cast<int64_t>(makers.size());
  int64_t sent = 0;
  for (const auto& [node, own] : partials) {
    scatter.add_sent(node, features * own * (all - receivers[node]));
    sent += own;
  }
  for (const auto& [node, here] : receivers) {
    const auto own = partials.find(node);
    scatter.add_received(node, features * here * (sent - (own == partials.end() ? 0 : own->second)));
  }
  return {gather.time(), stats.time(), scatter.time()};
}

}  // namespace

PassFactors pass_factors(const SearchInput& input, const Setting& setting) {
  const int64_t blocks = blocks_of_micro_batch(input, setting);
  const int64_t all = input.module.train.batch / input.module.train.norm_rows;
  const int partials = partials_of(setting, input.deterministic, all, input.machine);
  const int workers = input.machine.threads_of(0);
  return {.blocks = blocks,
          .forward = input.cost.forward_pass(1, blocks, workers),
          .backward = input.cost.backward_pass(1, blocks, meeting_partials(input, setting, partials), workers),
          .partials = partials / setting.replicas};
}

int64_t rows_of_head_pass(const SearchInput& input, const Setting& setting) {
  const int64_t batch = input.module.train.batch;
  return one_pass(input.module, setting) ? batch : batch * setting.replicas / setting.micro_batches;
}

Result<std::vector<HeadPlan>> heads_of(const SearchInput& input, const Setting& setting) {
  return plan_heads(input.module, input.chain, input.machine, rows_of_head_pass(input, setting), setting.head_devices);
}

Mesh mesh_of(const SearchInput& input, const Setting& setting) {
  return {input.machine.devices, setting.stages, setting.replicas, setting.pipeline, setting.chunks};
}

// A zero-bubble schedule may hold twice as many micro-batches as 1F1B.
ScheduleRequest schedule_request(const Setting& setting) {
  const Mesh mesh{.stages = setting.stages, .pipeline = setting.pipeline, .chunks = setting.chunks};
  ScheduleRequest request{.micro_batches = setting.micro_batches / setting.replicas};
  for (int s = 0; s < setting.stages; ++s) {
    request.rank_of_stage.push_back(mesh.rank_of(s));
  }
  request.extra_warm_up.assign(static_cast<size_t>(setting.ranks()), setting.warm_up);
  request.extra_warm_up.back() = 0;  // the last stage waits for nothing after its forward passes
  for (int rank = 0; setting.pipeline == PipelineKind::kZeroBubble && rank < setting.ranks(); ++rank) {
    request.memory.push_back(2 * (setting.ranks() - rank));
  }
  return request;
}

std::vector<int> devices_of(const SearchInput& input, const Setting& setting, int stage) {
  const Mesh mesh = mesh_of(input, setting);
  std::vector<int> devices;
  for (int r = 0; r < setting.replicas; ++r) {
    devices.push_back(mesh.device_of(stage, r));
  }
  return devices;
}

UpdateCosts::UpdateCosts(const SearchInput& input, const Setting& setting)
    : input_(input),
      setting_(setting),
      devices_(devices_of_stages(input, setting)),
      sums_(setting.replicas, replicas_of_node(input.machine.device_nodes, devices_)),
      run_(replicas_of_sender(input.module.train.compress, input.machine, devices_)),
      partials_(pass_factors(input, setting).partials),
      workers_(input.machine.threads_of(0)) {}

UpdateCosts::StageBytes UpdateCosts::sum_up(const PartitionStage& stage) const {
  const Chain& chain = input_.chain;
  StageBytes sum;
  for (int l = stage.begin; l < stage.end; ++l) {
    const auto p = static_cast<size_t>(l);
    sum.gradients += chain.gradients[p];
    sum.pairs += chain.pairs[p];
    sum.whole += chain.whole[p];
    sum.update += chain.update_time[p];
  }
  return sum;
}

Seconds UpdateCosts::of_layer(size_t layer) const {
  const Chain& chain = input_.chain;
  return input_.cost.sweep(partials_ * chain.gradients[layer], workers_) + chain.update_time[layer] / workers_;
}

// Returns the time of the exchanges of a stage without the network: a reduce-scatter and a sum for each round, and an
// all-gather. While one bucket is sent, the one before it is summed, so only the sum of the last bucket counts.
Seconds UpdateCosts::exchanges(const StageBytes& bytes) const {
  const CostModel& cost = input_.cost;
  const int replicas = setting_.replicas;
  if (replicas == 1) {
    return 0;
  }
  Seconds time = 0;
  if (bytes.whole > 0) {
    const Bytes bucket = std::max<Bytes>(1, input_.module.schedule.bucket);
    const auto buckets = static_cast<double>((bytes.whole + bucket - 1) / bucket);
    const Seconds more = (buckets - 1) * (cost.all_gather(0, replicas));
    time += cost.all_gather(bytes.whole, replicas) + more;
    for (int round = 0; round < sums_.rounds(); ++round) {
      const Slice shared = sums_.shared(bytes.whole / static_cast<Bytes>(sizeof(float)), round, 0);
      const auto members = static_cast<int>(sums_.members(round, 0).size());
      time += cost.reduce_scatter(shared.bytes, members) + more + cost.hand_over() +
              cost.sweep(shared.bytes, workers_) / buckets;
    }
  }
  if (run_ > 1 && bytes.gradients > bytes.whole) {
    time += cost.reduce_scatter(bytes.gradients - bytes.whole, run_);
  }
  return time + (bytes.pairs > 0 ? cost.all_gather(bytes.pairs * (replicas / run_), replicas) : 0);
}

UpdateTimes UpdateCosts::times(const Partition& cuts) const {
  const CostModel& cost = input_.cost;
  UpdateTimes times;
  LinkLoad load(input_.machine);
  Seconds quickest = HUGE_VAL;
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const StageBytes bytes = sum_up(cuts.stages[s]);
    const Seconds read = cost.sweep(partials_ * bytes.gradients, workers_);
    const Seconds exchanged = exchanges(bytes);
    Seconds time = exchanged;
    if (bytes.gradients > 0) {
      time += partials_ > 1 ? cost.hand_over() + read : 0;
      time += input_.module.train.sums_squares()
                  ? cost.hand_over() + read + cost.all_gather(0, setting_.ranks() * setting_.replicas)
                  : 0;
      time += cost.hand_over() + read + bytes.update / workers_;
    }
    times.zeroing.push_back(read);
    times.stages.push_back(time);
    quickest = std::min(quickest, exchanged);
    if (input_.machine.nodes() > 1) {
      add_sums(sums_, devices_[s], bytes.whole, load);
      if (times.first_network == 0) {
        times.first = s;
        times.first_network = load.time();
      }
      std::vector<int> senders;  // a device of each sender
      for (size_t r = 0; r < devices_[s].size(); r += static_cast<size_t>(run_)) {
        senders.push_back(devices_[s][r]);
      }
      load.add_shared(senders, devices_[s], bytes.pairs);
    }
  }
  times.network = std::max(0.0, load.time() - quickest);
  return times;
}

Seconds hop_time(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                 const Partition& cuts, size_t s) {
  const Bytes bytes = request.layers[static_cast<size_t>(cuts.stages[s].begin)].incoming;
  const Mesh mesh = mesh_of(input, setting);
  if (s > 0 && mesh.rank_of(static_cast<int>(s)) == mesh.rank_of(static_cast<int>(s) - 1)) {
    return 0;
  }
  if (s == 0 || input.machine.nodes() == 1) {
    return input.cost.copy(bytes);
  }
  LinkLoad load(input.machine);
  const std::vector<int> from = devices_of(input, setting, static_cast<int>(s) - 1);
  const std::vector<int> to = devices_of(input, setting, static_cast<int>(s));
  for (size_t r = 0; r < from.size(); ++r) {
    load.add(from[r], to[r], bytes);
  }
  return std::max(input.cost.copy(bytes), load.time());
}

HeadExchanges head_exchanges(const std::vector<HeadPlan>& heads, const CostModel& cost, const TrainingHeads& training,
                             const std::vector<int>& makers, int64_t rows) {
  HeadExchanges sum;
  const Machine& machine = cost.machine();
  const int workers = machine.threads_of(0);
  for (const HeadPlan& head : heads) {
    const Members members = members_of(head, makers);
    const Bytes features = rows * head.dim * static_cast<Bytes>(sizeof(float));
    const Bytes of_maker = features / static_cast<Bytes>(makers.size());
    const Bytes stats = head.rows * kStatistics * static_cast<Bytes>(members.shards.size());
    const std::map<int, int64_t> partials = DxTerms(head, machine.device_nodes).partials_by_node();
    const LinkTimes links =
        machine.nodes() > 1 ? link_times(head, machine, makers, members.shards, of_maker, partials) : LinkTimes();
    sum.gather += std::max(cost.all_gather(features, members.all), links.gather);
    sum.gather_links += links.gather;
    sum.scatter_links += training.trains ? links.scatter : 0;
    const bool alone = members.shards.size() <= 1;
    sum.statistics +=
        (alone ? 0 : std::max(cost.all_gather(stats, static_cast<int>(members.shards.size())), links.statistics)) +
        cost.hand_over() + cost.sweep(stats, workers);
    sum.starts += (training.trains ? 2 : 1) * cost.hand_over();
    if (makers.size() > 1 && head.rows < training.batch) {
      sum.copies +=
          2 * cost.hand_over() + (head.update_sweep ? cost.copy(head.rows * (head.dim * 4 + kStatistics)) : 0);
    }
    if (!training.trains) {
      continue;
    }
    int64_t terms = 0;
    for (const auto& [node, own] : partials) {
      terms += own;
    }
    sum.scatter += std::max(cost.reduce_scatter(features, members.all), links.scatter);
    sum.sum += cost.hand_over() + cost.sweep(of_maker * (2 + terms), 1);
  }
  return sum;
}

}  // namespace xrun::planner
