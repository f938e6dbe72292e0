#include "planner/machine.h"

#include <algorithm>

namespace xrun::planner {
namespace {

// The memory for system, code, stacks and the page cache of data: an eighth, between 256 MiB and 1 GiB.
Bytes default_reserve(Bytes memory) { return std::clamp<Bytes>(memory / 8, 256 * kMiB, kGiB); }

}  // namespace

int Machine::threads_of(int device) const {
  const int share = threads / devices;
  return std::max(1, share + (device < threads % devices ? 1 : 0));
}

Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory) {
  Machine machine;
  machine.cores = static_cast<int>(std::max<int64_t>(1, cluster.cores > 0 ? cluster.cores : cores));
  machine.devices = request.devices > 0 ? request.devices : std::max(machine.cores, request.ranks);
  machine.threads = std::max(request.threads > 0 ? request.threads : machine.cores, machine.devices);
  const Bytes whole = cluster.memory > 0 ? cluster.memory : memory;
  const Bytes reserve = cluster.reserve >= 0 ? cluster.reserve : default_reserve(whole);
  machine.memory = std::max<Bytes>(0, whole - reserve);
  machine.name = std::to_string(machine.devices) + " x " + (cluster.cpu.empty() ? "cpu" : cluster.cpu);
  return machine;
}

}  // namespace xrun::planner
