// Reports the traffic between the nodes of a cluster.
#pragma once

#include <string>
#include <vector>

#include "planner/program/links.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The traffic in a step of all exchanges with one purpose, such as gathering features.
struct NetworkUse {
  std::string what;   // purpose of the exchanges, such as "features"
  Bytes busiest = 0;  // bytes of the busiest link in its busier direction
  Seconds time = 0;   // time in which that link moves these bytes
};

struct NetworkSummary {
  std::vector<LinkBytes> links;  // bytes of all exchanges of a step; index: node
  std::vector<NetworkUse> uses;  // in the order of the step
  Bytes busiest() const { return busiest_of(links); }
};

// Returns the traffic of a step of the plan; empty if the plan is for one node.
NetworkSummary network_of(const Plan& plan);

// A network as text: "ethernet 200 Mbit/s, 50 us".
std::string to_text(const NetworkSpec& network);
// Returns a text about the links between the GPUs of a node; empty for CPUs and for one GPU.
std::string device_link_text(const Machine& machine);
// Returns the line of a plan about its network: "4 nodes, ethernet 200 Mbit/s, 50 us: the busiest link moves 12.0 MiB a
// step, 503.3 ms: ..."; empty for one node.
std::string network_text(const Plan& plan);
// A table of the bytes of each node's link; empty for one node.
std::string network_table(const Plan& plan);

}  // namespace xrun::planner
