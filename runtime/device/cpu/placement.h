// Places CPU devices on a machine with several NUMA nodes: the processors that their workers run on, and the nodes that
// their memory comes from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// A core: the system's numbers of its logical processors (hyperthreads), its package and its NUMA node.
struct Core {
  std::vector<int> cpus;
  int package = 0;
  int node = 0;
};

// The cores that this process may use, in the order of packages and nodes.
struct CpuTopology {
  std::vector<Core> cores;
  bool here = true;  // the topology of this machine; else synthetic (HWLOC_SYNTHETIC), and no thread is bound to it

  std::vector<int> nodes() const;  // nodes with cores, ascending
};

// The topology of this machine, with the cores in the affinity mask of the process. Without cores if hwloc fails.
CpuTopology read_cpu_topology();
// The topology of an hwloc description such as "package:2 numa:1 core:32 pu:2"; without cores if it is invalid.
CpuTopology synthetic_cpu_topology(const std::string& description);

// The processors and nodes that a device is bound to. Both lists ascend.
struct DeviceCpus {
  std::vector<int> cpus;   // one for each worker; empty: the device is not bound
  std::vector<int> nodes;  // the NUMA nodes of these processors
};

// Gives each device as many processors as it has workers. Neighbouring devices, which send to one another, get adjacent
// processors, and devices spread over all nodes in proportion to their workers. A device gets a single node if it fits;
// otherwise it takes further nodes of its package first. A core has one worker while there are enough cores, otherwise
// its hyperthreads have one each; devices never share a processor. Binds nothing if that would only limit the system's
// choice: on one node, and with more workers than processors.
std::vector<DeviceCpus> place_devices(const CpuTopology& topology, std::span<const int> workers);

// Describes the placement, "cpu 0..3 on node 0, cpu 4 on nodes 0 and 1", or says why no device is bound. Empty on one
// node.
std::string describe_placement(const CpuTopology& topology, std::span<const DeviceCpus> devices);

// Asks the system to allocate the pages of a range from these nodes: from a single node while it has free pages, from
// several in turn. Does nothing without nodes or permission. REQUIRES: no page of the range has been accessed.
void prefer_nodes(void* address, Bytes bytes, std::span<const int> nodes);

// The processors that the calling thread may run on; empty if the system does not report them.
std::vector<int> thread_cpus();
// Binds the calling thread to these processors. Does nothing without processors or permission. Allocates nothing.
void bind_thread(std::span<const int> cpus);

}  // namespace xrun::runtime
