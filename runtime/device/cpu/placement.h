// Where CPU devices lie on a machine whose memory is in several NUMA nodes: which processors their workers run on, and
// which nodes their memory is in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// A core, by the numbers that the system has for its logical processors (hyperthreads), package and NUMA node.
struct Core {
  std::vector<int> cpus;
  int package = 0;
  int node = 0;
};

// The cores that this process may use, in the order of packages and nodes.
struct CpuTopology {
  std::vector<Core> cores;
  bool here = true;  // of this machine; else made up (HWLOC_SYNTHETIC), and nothing is bound to it

  std::vector<int> nodes() const;  // those that have cores, in order
};

// Of this machine: cores in the affinity mask of the process. Without cores where hwloc fails.
CpuTopology read_cpu_topology();
// Of an hwloc description such as "package:2 numa:1 core:32 pu:2"; without cores where it is wrong.
CpuTopology synthetic_cpu_topology(const std::string& description);

// What a device is bound to. Both lists ascend.
struct DeviceCpus {
  std::vector<int> cpus;   // one a worker; empty: the device is not bound
  std::vector<int> nodes;  // that they belong to
};

// Gives each device as many processors as it has workers. Neighbours, which send to one another, lie side by side, and
// devices spread over all nodes in proportion to their workers. A device lies in one node where it fits; one that does
// not takes further nodes of its package first. A core has one worker while there are enough cores, else its
// hyperthreads have one each; devices never share a processor. Binds nothing where it would only take the choice from
// the system: on one node, and with more workers than processors.
std::vector<DeviceCpus> place_devices(const CpuTopology& topology, std::span<const int> workers);

// Of devices that are bound: "cpu 0..3 on node 0, cpu 4 on nodes 0 and 1"; else why not. Empty on one node.
std::string describe_placement(const CpuTopology& topology, std::span<const DeviceCpus> devices);

// Asks the system to take the pages of a range, none of which has been touched, from these nodes: from one as long as
// it has free ones, from several in turn. Does nothing where there are none, or where the system does not let it.
void prefer_nodes(void* address, Bytes bytes, std::span<const int> nodes);

// The processors that the calling thread may run on; empty where the system does not tell.
std::vector<int> thread_cpus();
// Lets the calling thread run on these processors alone. Does nothing where there are none, or where the system does
// not let it. Allocates nothing.
void bind_thread(std::span<const int> cpus);

}  // namespace xrun::runtime
