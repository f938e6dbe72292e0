// The machine that a plan is made for: CPU devices of one process, or of several that run it together.
#pragma once

#include <string>

#include "graph/base/units.h"
#include "graph/specs.h"

namespace xrun::planner {

struct Machine {
  std::string name = "cpu";  // "2 x cpu", or the name that the cluster gives its processor
  int cores = 1;
  int devices = 1;   // each a TBB arena
  int threads = 1;   // of all devices together; at least `devices`
  Bytes memory = 0;  // usable by all devices together, after `reserve`
  // Threads of device d: contiguous shares, at least one each.
  int threads_of(int device) const;
};

struct MachineRequest {
  int devices = 0;  // 0: one per core, and at least one a rank
  int threads = 0;  // 0: cores
  int ranks = 1;    // processes that will run the plan
};

// `cores` and `memory` are the detected ones; the cluster spec, where given, replaces them.
Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory);

}  // namespace xrun::planner
