#include "runtime/device/host.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include "runtime/device/control_groups.h"

namespace xrun::runtime {
namespace {

// Reads the number of a line "key:  number kB".
Bytes kib_line(const std::string& path, const std::string& key) { return number_of(path, key + ":") * kKiB; }

// Returns the number of cores in the affinity mask, limited by the quota of the control group.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (in >> quota >> period && period > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::floor(quota / period))));
  }
  return std::max(1, cores);
}

void read_topology(Host& host) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) {
    return;
  }
  if (hwloc_topology_load(topology) == 0) {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char* name = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
    host.cpu = name == nullptr ? "" : name;
    const auto cache = [&](hwloc_obj_type_t type) {
      const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, 0);
      return object == nullptr ? Bytes{0} : static_cast<Bytes>(object->attr->cache.size);
    };
    host.l2_cache = cache(HWLOC_OBJ_L2CACHE);
    host.l3_cache = cache(HWLOC_OBJ_L3CACHE);
  }
  hwloc_topology_destroy(topology);
}

}  // namespace

Host detect_host() {
  Host host;
  host.cores = usable_cores();
  read_topology(host);
  if (host.cpu.empty()) {
    host.cpu = "unknown processor";
  }
  host.memory_total = kib_line("/proc/meminfo", "MemTotal");
  host.memory_free = host.system_free = kib_line("/proc/meminfo", "MemAvailable");
  if (const auto group = group_memory()) {
    host.memory_total = std::min(host.memory_total, group->limit);
    host.memory_free = std::min(host.memory_free, group->free);
  }
  return host;
}

Bytes resident() {
  // The file contains "size resident shared ...", in pages.
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  char text[128] = {};
  const ssize_t got = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
  if (file >= 0) {
    ::close(file);
  }
  const char* second = got > 0 ? std::strchr(text, ' ') : nullptr;
  return second == nullptr ? 0 : static_cast<Bytes>(std::strtoll(second, nullptr, 10)) * ::sysconf(_SC_PAGESIZE);
}

Bytes peak_resident() { return kib_line("/proc/self/status", "VmHWM"); }

}  // namespace xrun::runtime
