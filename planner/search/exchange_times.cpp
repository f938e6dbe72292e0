// The times of exchanges that a setting needs: transfers between stages, and sums of gradients over replicas.
// Tests: tests/planner/search/choose_test.cpp, tests/planner/planner_test.cpp
#include <algorithm>

#include "graph/settings/optimizer_facts.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/compression_owners.h"
#include "planner/program/links.h"
#include "planner/program/replica_sums.h"
#include "planner/search/search.h"

namespace xrun::planner {
namespace {

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

// Returns the time of these sums without the network: a reduce-scatter for each round, and an all-gather.
Seconds sum_time(const ReplicaSums& sums, const CostModel& cost, int replicas, Bytes bytes) {
  if (replicas == 1) {
    return 0;
  }
  Seconds time = cost.all_gather(bytes, replicas);
  for (int round = 0; round < sums.rounds(); ++round) {
    const Slice shared = sums.shared(bytes / static_cast<Bytes>(sizeof(float)), round, 0);
    time += cost.reduce_scatter(shared.bytes, static_cast<int>(sums.members(round, 0).size()));
  }
  return time;
}

}  // namespace

Mesh mesh_of(const SearchInput& input, const Setting& setting) {
  return {input.machine.devices, setting.stages, setting.replicas};
}

std::vector<int> devices_of(const SearchInput& input, const Setting& setting, int stage) {
  const Mesh mesh = mesh_of(input, setting);
  std::vector<int> devices;
  for (int r = 0; r < setting.replicas; ++r) {
    devices.push_back(mesh.device_of(stage, r));
  }
  return devices;
}

// An optimizer that needs norms first reads the values in separate sweeps, which count.
Bytes update_traffic(const Module& module) {
  const auto states = static_cast<Bytes>(optimizer_states(module).size());
  const NormReads norms = norm_reads(module.train.optimizer);
  return norms.sweeps * (2 + (norms.states ? states : 0)) + 4 + 2 * states;
}

UpdateTimes update_times(const SearchInput& input, const Setting& setting, const Partition& cuts, Bytes traffic) {
  std::vector<std::vector<int>> devices;  // index: stage
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    devices.push_back(devices_of(input, setting, static_cast<int>(s)));
  }
  const ReplicaSums sums(setting.replicas, replicas_of_node(input.machine, devices));
  const int run = replicas_of_sender(input.module.train.compress, input.machine, devices);
  UpdateTimes times;
  LinkLoad load(input.machine);
  for (size_t s = 0; s < cuts.stages.size(); ++s) {
    const PartitionStage& stage = cuts.stages[s];
    Bytes bytes = 0;
    Bytes pairs = 0;
    Bytes whole = 0;
    for (int l = stage.begin; l < stage.end; ++l) {
      bytes += input.chain.gradients[static_cast<size_t>(l)];
      pairs += input.chain.pairs[static_cast<size_t>(l)];
      whole += input.chain.whole[static_cast<size_t>(l)];
    }
    const Seconds exchanged =
        sum_time(sums, input.cost, setting.replicas, whole) +
        (run > 1 && bytes > whole ? input.cost.reduce_scatter(bytes - whole, run) : 0) +
        (pairs > 0 && setting.replicas > 1 ? input.cost.all_gather(pairs * (setting.replicas / run), setting.replicas)
                                           : 0);
    times.stages.push_back(input.cost.sweep(bytes * traffic, input.machine.threads_of(0)) + exchanged);
    add_sums(sums, devices[s], whole, load);
    std::vector<int> senders;  // a device of each sender
    for (size_t r = 0; r < devices[s].size(); r += static_cast<size_t>(run)) {
      senders.push_back(devices[s][r]);
    }
    load.add_shared(senders, devices[s], pairs);
  }
  times.network = load.time();
  return times;
}

Seconds hop_time(const SearchInput& input, const Setting& setting, const PartitionRequest& request,
                 const Partition& cuts, size_t s) {
  const Bytes bytes = request.layers[static_cast<size_t>(cuts.stages[s].begin)].incoming;
  LinkLoad load(input.machine);
  if (s > 0) {
    const std::vector<int> from = devices_of(input, setting, static_cast<int>(s) - 1);
    const std::vector<int> to = devices_of(input, setting, static_cast<int>(s));
    for (size_t r = 0; r < from.size(); ++r) {
      load.add(from[r], to[r], bytes);
    }
  }
  return std::max(input.cost.copy(bytes), load.time());
}

}  // namespace xrun::planner
