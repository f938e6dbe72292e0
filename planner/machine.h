// The machine for which a plan is made: CPU devices of one process, or of several processes that run it together on one
// node or on a cluster of nodes joined by a network.
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/specs.h"

namespace xrun::planner {

struct Machine {
  std::string name = "cpu";  // "2 x cpu", or with the cluster's name for its processor
  int cores = 1;             // total of all nodes, as is memory
  int devices = 1;           // each a TBB arena
  int threads = 1;           // total of all devices; at least `devices`
  Bytes memory = 0;          // usable by all devices together, after `reserve`
  Bytes node_memory = 0;     // the smallest node's part of it
  int ranks = 1;             // processes, which have contiguous runs of devices (Program::rank_of)
  // The node of each device, counted from 0; empty: there is one node.
  std::vector<int> device_nodes;
  NetworkSpec network;

  // Threads of device d: contiguous shares, at least one each.
  int threads_of(int device) const;
  int node_of(int device) const { return device_nodes.empty() ? 0 : device_nodes[static_cast<size_t>(device)]; }
  int rank_of(int device) const { return static_cast<int>(int64_t{device} * ranks / devices); }
  int nodes() const;
};

// The processes that will run a plan, and the detected properties of their nodes.
struct MachineRequest {
  int devices = 0;              // 0: one per core, or one a rank beyond 1,024 cores; at least one a rank
  int threads = 0;              // 0: cores
  int ranks = 1;                // 1 if the cluster has several nodes: one process for each of them
  std::vector<int> rank_nodes;  // node of each rank; empty: all on one
  Bytes node_memory = 0;        // memory of the smallest node; 0: all nodes have equal memory
  NetworkSpec network;          // the network between the nodes
};

// `cores` and `memory` are the detected totals of all nodes of the ranks. The cluster spec, if given, replaces them:
// its nodes have contiguous runs of ranks.
Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory);

}  // namespace xrun::planner
