// The machine that xrun runs on: cores and memory that this process may use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

struct Host {
  std::string cpu;  // "AMD EPYC 9454"
  int cores = 1;    // that this process may run on (affinity and cgroup quota)
  int numa_nodes = 1;
  Bytes memory_total = 0;  // of the machine, or of the cgroup where that is less
  Bytes memory_free = 0;   // available now
  Bytes l2_cache = 0;      // of one core
  Bytes l3_cache = 0;
};

// Never fails: what cannot be found keeps a modest default.
Host detect_host();

struct GroupMemory {
  Bytes limit = 0;
  Bytes free = 0;  // caches of files are free: they give way
};
// What the cgroup (version 2) of this directory may use; none where it has no limit.
std::optional<GroupMemory> group_memory(const std::string& directory);

// The memory that this process holds now; 0 where the system does not tell. Allocates nothing.
Bytes resident();
// The most memory that this process has held at one time (VmHWM); 0 where the system does not tell.
Bytes peak_resident();

}  // namespace xrun::runtime
