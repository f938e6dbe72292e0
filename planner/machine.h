// The machine that a plan is made for: CPU devices of one process, or of several that run it together on one node or on
// a cluster of nodes that a network joins.
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "graph/specs.h"

namespace xrun::planner {

struct Machine {
  std::string name = "cpu";  // "2 x cpu", or with the name that the cluster gives its processor
  int cores = 1;             // of all nodes together, as memory is
  int devices = 1;           // each a TBB arena
  int threads = 1;           // of all devices together; at least `devices`
  Bytes memory = 0;          // usable by all devices together, after `reserve`
  Bytes node_memory = 0;     // of it, what the node with the least has
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

// The processes that will run a plan, and what was found of their nodes.
struct MachineRequest {
  int devices = 0;              // 0: one per core, or one a rank beyond 1,024 cores; at least one a rank
  int threads = 0;              // 0: cores
  int ranks = 1;                // 1 where the cluster has several nodes: one process for each of them
  std::vector<int> rank_nodes;  // the node of each rank; empty: all on one
  Bytes node_memory = 0;        // of the node with the least; 0: all have as much
  NetworkSpec network;          // between them
};

// `cores` and `memory` are the detected ones of all nodes of the ranks. The cluster spec, where given, replaces them:
// its nodes have contiguous runs of ranks.
Machine make_machine(const ClusterSpec& cluster, const MachineRequest& request, int cores, Bytes memory);

}  // namespace xrun::planner
