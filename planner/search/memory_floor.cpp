// The least memory of the programs of a kind of candidates (declared in planner/search/choose.h).
// Tests: tests/planner/search/choose_test.cpp
#include <algorithm>
#include <map>

#include "planner/program/buffer_sizes.h"
#include "planner/search/choose.h"

namespace xrun::planner {
namespace {

// Returns a lower bound of the bytes of each layer of the chain. A weight that several layers read does not count,
// since the cuts determine which stages hold it.
std::vector<Bytes> layer_floors(const SearchInput& input, int partials_of_replica) {
  const Graph& graph = input.module.graph;
  const Chain& chain = input.chain;
  std::vector<int> readers(graph.params.size(), 0);
  const auto each_param = [&](NodeId node, const auto& action) {
    for (const ValueId value : graph.node(node).inputs) {
      if (const ParamId param = graph.value(value).param; param.valid()) {
        const ParamId weight = graph.param(param).tied.valid() ? graph.param(param).tied : param;
        action(readers[static_cast<size_t>(weight.index)]);
      }
    }
  };
  for (const NodeId node : chain.nodes) {
    each_param(node, [](int& count) { ++count; });
  }
  std::vector<Bytes> floors;
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    bool own = true;
    each_param(chain.nodes[i], [&](int count) { own = own && count == 1; });
    floors.push_back(own ? chain.resident[i] + chain.gradients[i] * partials_of_replica : 0);
  }
  return floors;
}

// Returns a lower bound of the bytes of heads on each device: class weights with their optimizer states.
std::map<int, Bytes> head_floors(const SearchInput& input, const Decision& decision) {
  const auto states = static_cast<Bytes>(optimizer_states(input.module).size());
  std::map<int, Bytes> floors;
  for (const HeadPlan& head : decision.heads) {
    if (head.mapped) {
      continue;  // rows in a file need no memory
    }
    const bool updated = head.loss.valid() && !head.frozen;
    for (const HeadShard& shard : head.shards) {
      const auto bytes_of = [&](Purpose purpose) { return shard_bytes(head, shard, head.weight, purpose); };
      floors[shard.device] +=
          bytes_of(Purpose::kHeadWeight) + (updated ? states * bytes_of(Purpose::kHeadOptimizer) : 0);
    }
  }
  return floors;
}

// Returns the bytes of the graphs of nearest classes in the host's memory, from which heads select their active
// classes.
Bytes host_floor(const SearchInput& input, const Decision& decision) {
  Program program;
  for (int device = 0; device < input.machine.devices; ++device) {
    program.threads.push_back(input.machine.threads_of(device));
  }
  Bytes sum = 0;
  for (const HeadPlan& head : decision.heads) {
    for (const Bytes bytes : head.neighbours > 0 ? graph_bytes(program, head) : std::vector<Bytes>()) {
      sum += align_up(bytes);
    }
  }
  return sum;
}

}  // namespace

bool MemoryFloor::is_within(const MemoryLimits& limits) const {
  return total <= limits.total && (limits.device == 0 || device <= limits.device) &&
         (limits.node == 0 || node <= limits.node);
}

MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials) {
  const Setting& setting = candidate.setting;
  MemoryFloor floor;
  Bytes layers = 0;
  for (const Bytes bytes : layer_floors(input, partials / setting.replicas)) {
    layers += bytes;
    floor.device = std::max(floor.device, bytes);
  }
  floor.device = std::max(floor.device, (layers + setting.ranks() - 1) / setting.ranks());
  const Bytes host = host_floor(input, candidate.decision);
  floor.node = host;  // every node has these buffers
  floor.total = layers * setting.replicas + host;
  std::map<int, Bytes> nodes;
  for (const auto& [device, bytes] : head_floors(input, candidate.decision)) {
    floor.device = std::max(floor.device, bytes);
    floor.total += bytes;
    Bytes& node = nodes[input.machine.node_of(device)];
    node += input.machine.has_gpus() ? 0 : bytes;
    floor.node = std::max(floor.node, host + node);
  }
  return floor;
}

}  // namespace xrun::planner
