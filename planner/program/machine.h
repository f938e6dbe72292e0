// The machine for which a plan is made: devices of one process, or of several processes that run it together on one
// node or on a cluster of nodes joined by a network. All devices are of one kind: parts of the CPUs, which use the
// memory of their node, or GPUs of a kind, which have memory of their own.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/gpu_def.h"
#include "graph/settings/specs.h"

namespace xrun::planner {

struct Machine {
  std::string name = "cpu";  // "2 x cpu", or with the name of the cluster's processor or GPU
  int cores = 1;             // cores of all nodes together
  int devices = 1;           // number of devices: TBB arenas, or GPUs
  int threads = 1;           // threads of all devices together; at least `devices`, and one for each GPU
  Bytes memory = 0;          // what plans may use of the memory of all nodes, without the `reserve` and that of GPUs
  Bytes node_memory = 0;     // the part of `memory` on the node that has the least memory
  int ranks = 1;             // processes, which have contiguous ranges of devices (Program::rank_of)
  // The node of each device, counted from 0; empty: there is one node.
  std::vector<int> device_nodes;
  NetworkSpec network;
  double filling_workers = 0;  // KernelFacts::filling_workers of each node; 0: unknown
  std::string gpu;             // GpuDef::name of the devices; empty: they are CPUs
  Bytes device_memory = 0;     // memory of each GPU
  double device_link = 0;      // bytes a second between two GPUs of a node, in each direction

  bool has_gpus() const { return !gpu.empty(); }
  // Returns the kind of the GPUs with its article: "an h100", "a v100_32g".
  std::string gpu_with_article() const;
  // Returns how many workers compute at the same time without slowing one another: as many as there are cores. The
  // work of GPUs needs no cores.
  int parallel_workers() const { return has_gpus() ? threads : cores; }
  // Returns how many workers compute on a node at the same time, at least 1.
  int workers_of_node() const { return std::max(1, std::min(threads, cores) / nodes()); }
  // Returns the number of threads of a device: threads are divided as evenly as possible, at least one per device.
  int threads_of(int device) const;
  int node_of(int device) const { return device_nodes.empty() ? 0 : device_nodes[static_cast<size_t>(device)]; }
  int rank_of(int device) const { return static_cast<int>(int64_t{device} * ranks / devices); }
  int nodes() const;
};

// The processes that will run a plan, and the detected properties of their nodes.
struct MachineRequest {
  int devices = 0;              // 0: all GPUs of the cluster; without GPUs one per core, at most one per thread, and
                                // above 1,024 cores one per rank
  int threads = 0;              // number of threads; 0: one per core
  int ranks = 1;                // number of processes; 1 if the cluster has several nodes: one process for each node
  std::vector<int> rank_nodes;  // node of each rank; empty: all ranks are on one node
  Bytes node_memory = 0;        // memory of the smallest node; 0: all nodes have equal memory
  NetworkSpec network;          // the network between the nodes
  std::optional<GpuDef> gpu;    // the devices whose figures the cluster states
};

// Returns the machine for a request. `cores` and `memory` are the detected totals over the nodes on which ranks have
// been started. If the model text describes a cluster, its values are used in place of the detected ones, and its nodes
// have contiguous ranges of ranks. GPUs are never detected: only a cluster has them.
Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory);

}  // namespace xrun::planner
