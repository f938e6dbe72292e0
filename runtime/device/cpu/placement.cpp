// Each device first gets a preferred node according to its place in the sequence of all workers, so that consecutive
// devices are near each other. Then the devices take processors, the largest devices first, since these fit in the
// fewest nodes. A device takes all its processors from the first node with enough free processors, in this order:
// preferred node, nodes of the same package, other nodes. Devices that fit in no node come last, and take the remaining
// processors in the same order.
#include "runtime/device/cpu/placement.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <hwloc.h>
#include <linux/mempolicy.h>
#include <memory>
#include <numeric>
#include <sched.h>
#include <set>
#include <sys/syscall.h>
#include <tuple>
#include <unistd.h>

namespace xrun::runtime {
namespace {

using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

std::vector<int> numbers_of(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) {
    numbers.push_back(i);
  }
  return numbers;
}

CpuTopology read_loaded(hwloc_topology_t topology) {
  CpuTopology read;
  read.here = hwloc_topology_is_thissystem(topology) != 0;
  const Bitmap usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)), &hwloc_bitmap_free);
  const Bitmap mask(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (read.here && hwloc_get_cpubind(topology, mask.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_bitmap_and(usable.get(), usable.get(), mask.get());
  }
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    hwloc_bitmap_and(mask.get(), core->cpuset, usable.get());
    if (hwloc_bitmap_iszero(mask.get()) != 0) {
      continue;
    }
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
    read.cores.push_back({.cpus = numbers_of(mask.get()),
                          .package = package == nullptr ? 0 : static_cast<int>(package->logical_index),
                          .node = std::max(0, hwloc_bitmap_first(core->nodeset))});
  }
  return read;
}

CpuTopology read_any(const char* synthetic) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) {
    return {};
  }
  CpuTopology read;
  const bool known = synthetic == nullptr || hwloc_topology_set_synthetic(topology, synthetic) == 0;
  if (known && hwloc_topology_load(topology) == 0) {
    read = read_loaded(topology);
  }
  hwloc_topology_destroy(topology);
  return read;
}

// The processors of a node that are not assigned to a device yet.
struct FreeCpus {
  int node = 0;
  int package = 0;
  int all = 0;
  std::vector<int> cpus;  // free processors, which are taken from the end

  int count() const { return static_cast<int>(cpus.size()); }
};

std::vector<FreeCpus> free_cpus(const CpuTopology& topology, bool hyperthreads) {
  std::vector<FreeCpus> nodes;
  for (const int node : topology.nodes()) {
    FreeCpus& free = nodes.emplace_back();
    free.node = node;
    for (const Core& core : topology.cores) {
      if (core.node == node) {
        free.package = core.package;
        free.cpus.insert(free.cpus.end(), core.cpus.begin(), hyperthreads ? core.cpus.end() : core.cpus.begin() + 1);
      }
    }
    free.all = free.count();
    std::ranges::reverse(free.cpus);
  }
  std::ranges::stable_sort(nodes, {}, &FreeCpus::package);
  return nodes;
}

// Returns the node of a device if all workers are spread evenly over the processors of all nodes. `at`: the middle of
// the device's workers among all workers, from 0 to 1.
size_t node_at(const std::vector<FreeCpus>& nodes, int all, double at) {
  double end = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    end += static_cast<double>(nodes[i].all) / all;
    if (at < end) {
      return i;
    }
  }
  return nodes.size() - 1;
}

// Returns the nodes in the order in which a device takes processors from them.
std::vector<FreeCpus*> by_preference(std::vector<FreeCpus>& nodes, size_t preferred) {
  std::vector<FreeCpus*> order;
  for (FreeCpus& node : nodes) {
    order.push_back(&node);
  }
  const FreeCpus* first = &nodes[preferred];
  std::ranges::stable_sort(order, {}, [&](const FreeCpus* node) {
    return std::tuple(node != first, node->package != first->package, -node->count());
  });
  return order;
}

void take(FreeCpus& from, int count, DeviceCpus& device) {
  for (int i = 0; i < count; ++i) {
    device.cpus.push_back(from.cpus.back());
    from.cpus.pop_back();
  }
  if (count > 0) {
    device.nodes.push_back(from.node);
  }
}

}  // namespace

std::vector<int> CpuTopology::nodes() const {
  std::set<int> found;
  for (const Core& core : cores) {
    found.insert(core.node);
  }
  return {found.begin(), found.end()};
}

CpuTopology read_cpu_topology() { return read_any(nullptr); }

CpuTopology synthetic_cpu_topology(const std::string& description) { return read_any(description.c_str()); }

std::vector<DeviceCpus> place_devices(const CpuTopology& topology, std::span<const int> workers) {
  std::vector<DeviceCpus> devices(workers.size());
  const int wanted = std::accumulate(workers.begin(), workers.end(), 0);
  std::vector<FreeCpus> nodes = free_cpus(topology, wanted > std::ssize(topology.cores));
  const int all =
      std::accumulate(nodes.begin(), nodes.end(), 0, [](int sum, const FreeCpus& n) { return sum + n.all; });
  if (nodes.size() < 2 || wanted > all) {
    return devices;
  }
  std::vector<size_t> preferred;
  int before = 0;
  for (const int count : workers) {
    preferred.push_back(node_at(nodes, all, (before + count / 2.0) / wanted));
    before += count;
  }
  // Places large devices first. Devices that fit in no node come last, and get the remaining processors.
  std::vector<size_t> order(workers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t d) { return workers[d]; });
  std::vector<size_t> split;
  for (const size_t d : order) {
    const auto by_choice = by_preference(nodes, preferred[d]);
    const auto fits = std::ranges::find_if(by_choice, [&](const FreeCpus* n) { return n->count() >= workers[d]; });
    if (fits == by_choice.end()) {
      split.push_back(d);
    } else {
      take(**fits, workers[d], devices[d]);
    }
  }
  for (const size_t d : split) {
    for (FreeCpus* node : by_preference(nodes, preferred[d])) {
      take(*node, std::min(node->count(), workers[d] - static_cast<int>(devices[d].cpus.size())), devices[d]);
    }
  }
  for (DeviceCpus& device : devices) {
    std::ranges::sort(device.cpus);
    std::ranges::sort(device.nodes);
  }
  return devices;
}

std::string describe_placement(const CpuTopology& topology, std::span<const DeviceCpus> devices) {
  if (topology.nodes().size() < 2 || devices.empty()) {
    return "";
  }
  if (devices[0].cpus.empty()) {
    return "not bound: more workers than processors";
  }
  std::string text;
  for (size_t first = 0, end = 0; first < devices.size(); first = end) {
    while (end < devices.size() && devices[end].nodes == devices[first].nodes) {
      ++end;
    }
    text += fmt::format("{}cpu {}", text.empty() ? "" : ", ", first);
    text += end - first > 1 ? fmt::format("..{}", end - 1) : "";
    text += fmt::format(" on {} {}", devices[first].nodes.size() > 1 ? "nodes" : "node",
                        fmt::join(devices[first].nodes, " and "));
  }
  return text;
}

void prefer_nodes(void* address, Bytes bytes, std::span<const int> nodes) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  constexpr int kMostNodes = 1024;  // limit of Linux (MAX_NUMNODES)
  unsigned long mask[kMostNodes / kBits] = {};
  for (const int node : nodes) {
    if (node >= 0 && node < kMostNodes) {
      mask[node / kBits] |= 1UL << (node % kBits);
    }
  }
  if (!nodes.empty() && bytes > 0) {
    // The number of bits is one more than used, since the system ignores the last bit.
    (void)syscall(SYS_mbind, address, static_cast<unsigned long>(bytes),
                  nodes.size() == 1 ? MPOL_PREFERRED : MPOL_INTERLEAVE, mask, kMostNodes + 1, 0);
  }
}

std::vector<int> thread_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  for (int i = 0; known && i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) {
      cpus.push_back(i);
    }
  }
  return cpus;
}

void bind_thread(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) {
      CPU_SET(cpu, &set);
    }
  }
  if (!cpus.empty()) {
    (void)sched_setaffinity(0, sizeof set, &set);
  }
}

}  // namespace xrun::runtime
