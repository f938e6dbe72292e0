// The cores and memory of this machine that this process may use.
#pragma once

#include <string>

#include "graph/base/units.h"

namespace xrun::runtime {

struct Host {
  std::string cpu;         // "AMD EPYC 9454"
  int cores = 1;           // number of cores that this process may use (affinity and cgroup quota)
  Bytes memory_total = 0;  // memory of the machine, or the limit of the control groups if that is less
  Bytes memory_free = 0;   // memory available now, within the limits of control groups
  Bytes system_free = 0;   // memory available now on the machine, ignoring control groups
  Bytes l2_cache = 0;      // size of the second-level cache of a core
  Bytes l3_cache = 0;
};

// Never fails: a value that cannot be determined has a modest default.
Host detect_host();

// Returns the resident memory of this process now; 0 if the system does not report it. Allocates nothing.
Bytes resident();
// Returns the peak resident memory of this process (VmHWM); 0 if the system does not report it.
Bytes peak_resident();

}  // namespace xrun::runtime
