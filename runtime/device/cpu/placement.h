// Places CPU devices on a machine with several NUMA nodes: decides on which processors their workers run, and from
// which nodes their memory comes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// A core of the machine. All numbers are those of the system.
struct Core {
  std::vector<int> cpus;  // its logical processors (hyperthreads)
  int package = 0;
  int node = 0;
};

// The cores that this process may use, in the order of packages and nodes.
struct CpuTopology {
  std::vector<Core> cores;
  bool here = true;  // false: a synthetic topology (HWLOC_SYNTHETIC), to which no thread is bound

  std::vector<int> nodes() const;  // nodes with cores, ascending
};

// Returns the topology of this machine, with the cores in the process's affinity mask; without cores if hwloc fails.
CpuTopology read_cpu_topology();
// Returns the topology that an hwloc description such as "package:2 numa:1 core:32 pu:2" defines; invalid: no cores.
CpuTopology synthetic_cpu_topology(const std::string& description);

// The processors and nodes that a device is bound to. Both lists ascend.
struct DeviceCpus {
  std::vector<int> cpus;   // one processor for each worker; empty: the device is not bound
  std::vector<int> nodes;  // the NUMA nodes of these processors
};

// Gives each device a processor for each of its workers, by these rules:
//   - Devices never share a processor.
//   - Devices are spread over all nodes in proportion to their workers. Devices with consecutive indices, which send to
//     one another, get adjacent processors.
//   - A device gets processors of a single node if it fits there; otherwise it also takes processors of other nodes,
//     first of those in the same package.
//   - If there are enough cores, each core has one worker; otherwise each hyperthread has one.
// Binds no device if binding would only limit the choice of the system: on a machine with one node, and with more
// workers than processors.
std::vector<DeviceCpus> place_devices(const CpuTopology& topology, std::span<const int> workers);

// Describes the placement, such as "cpu 0..3 on node 0, cpu 4 on nodes 0 and 1", or the reason why no device is bound.
// Empty on a machine with one node.
std::string describe_placement(const CpuTopology& topology, std::span<const DeviceCpus> devices);

// Asks the system to allocate the pages of a range of memory from these nodes. With several nodes, pages alternate
// between them; a single node is preferred while it has free pages. Does nothing without nodes or permission. REQUIRES:
// no page of the range has been accessed.
void prefer_nodes(void* address, Bytes bytes, std::span<const int> nodes);

// The processors that the calling thread may run on; empty if the system does not report them.
std::vector<int> thread_cpus();
// Binds the calling thread to these processors. Does nothing without processors or permission. Allocates nothing.
void bind_thread(std::span<const int> cpus);

}  // namespace xrun::runtime
