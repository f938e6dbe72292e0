// The machine that xrun runs on: cores and memory that this process may use.
#pragma once

#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

struct Host {
  std::string cpu;         // "AMD EPYC 9454"
  int cores = 1;           // that this process may run on (affinity and cgroup quota)
  Bytes memory_total = 0;  // of the machine, or what its control groups allow where that is less
  Bytes memory_free = 0;   // available now
  Bytes l2_cache = 0;      // of one core
  Bytes l3_cache = 0;
};

// Never fails: what cannot be found keeps a modest default.
Host detect_host();

// The memory that this process holds now; 0 where the system does not tell. Allocates nothing.
Bytes resident();
// The most memory that this process has held at one time (VmHWM); 0 where the system does not tell.
Bytes peak_resident();

}  // namespace xrun::runtime
