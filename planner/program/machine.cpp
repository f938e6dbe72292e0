#include "planner/program/machine.h"

#include <algorithm>
#include <string_view>

namespace xrun::planner {
namespace {

// Returns the memory that is not used for plans, but left for the system, code, stacks and the page cache of data: an
// eighth of a node's memory, at least 256 MiB and at most 1 GiB.
Bytes default_reserve(Bytes memory) { return std::clamp<Bytes>(memory / 8, 256 * kMiB, kGiB); }

// The maximum number of cores for which each core is a device by default. With more devices the search would take long,
// so each rank is then one device with all of its cores.
constexpr int kMostUsualDevices = 1024;

int nodes_of(const std::vector<int>& nodes) { return nodes.empty() ? 1 : std::ranges::max(nodes) + 1; }

}  // namespace

std::string Machine::gpu_with_article() const {
  // The names of these letters begin with a vowel. A name of one letter and digits, like h100, is spoken as letters,
  // and so is rtx.
  constexpr std::string_view kVowels = "aefhilmnorsx";
  const bool is_spelt = gpu.starts_with("rtx") || (gpu.size() > 1 && gpu[1] >= '0' && gpu[1] <= '9');
  const std::string_view vowels = is_spelt ? kVowels : "aeiou";
  return (vowels.find(gpu.front()) != std::string_view::npos ? "an " : "a ") + gpu;
}

int Machine::threads_of(int device) const {
  const int share = threads / devices;
  return std::max(1, share + (device < threads % devices ? 1 : 0));
}

int Machine::nodes() const { return nodes_of(device_nodes); }

Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory) {
  const bool stated = cluster.nodes > 1;
  const int nodes = stated ? static_cast<int>(cluster.nodes) : nodes_of(request.rank_nodes);
  // If a launcher has started ranks on all nodes, `cores` and `memory` are totals; otherwise they are those of one
  // node.
  const int detected = request.ranks > 1 ? 1 : nodes;
  Machine machine;
  machine.cores = static_cast<int>(std::max<int64_t>(1, cluster.cores > 0 ? cluster.cores * nodes : cores * detected));
  machine.ranks = request.ranks > 1 ? request.ranks : nodes;
  const int threads = request.threads > 0 ? request.threads : machine.cores;
  const GpuDef* gpu = request.gpu ? &*request.gpu : find_gpu(cluster.gpu);
  const int usual = gpu != nullptr                       ? static_cast<int>(cluster.gpus) * nodes
                    : machine.cores <= kMostUsualDevices ? std::min(machine.cores, threads)
                                                         : machine.ranks;
  machine.devices = request.devices > 0 ? request.devices : std::max(usual, machine.ranks);
  machine.threads = gpu != nullptr ? machine.devices : std::max(threads, machine.devices);
  if (gpu != nullptr) {
    machine.gpu = gpu->name;
    machine.device_memory = gpu->memory;
    machine.device_link = gpu->link_rate;
  }
  const Bytes each = cluster.memory > 0        ? cluster.memory
                     : request.node_memory > 0 ? request.node_memory
                                               : memory * detected / nodes;
  const Bytes reserve = cluster.reserve >= 0 ? cluster.reserve : default_reserve(each);
  // The sum is a double, since a model text may state more memory than an integer can represent.
  const double whole =
      cluster.memory > 0 ? static_cast<double>(cluster.memory) * nodes : static_cast<double>(memory) * detected;
  const double usable = whole - static_cast<double>(reserve) * nodes;
  machine.memory = static_cast<Bytes>(std::clamp(usable, 0.0, 0x1p62));
  machine.node_memory = std::max<Bytes>(0, each - reserve);
  machine.name = std::to_string(machine.devices) + " x " +
                 (machine.has_gpus()    ? machine.gpu
                  : cluster.cpu.empty() ? "cpu"
                                        : cluster.cpu);
  if (nodes > 1) {
    machine.name += " on " + std::to_string(nodes) + " nodes";
    machine.network = cluster.network.known() ? cluster.network : request.network;
    for (int d = 0; d < machine.devices; ++d) {
      machine.device_nodes.push_back(stated ? static_cast<int>(int64_t{d} * nodes / machine.devices)
                                            : request.rank_nodes[static_cast<size_t>(machine.rank_of(d))]);
    }
  }
  return machine;
}

}  // namespace xrun::planner
