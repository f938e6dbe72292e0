// The traffic between the nodes of a cluster, as reports show it.
#pragma once

#include <string>
#include <vector>

#include "planner/links.h"
#include "planner/plan.h"

namespace xrun::planner {

// What exchanges of one purpose move in a step.
struct NetworkUse {
  std::string what;   // "features"
  Bytes busiest = 0;  // by the link that moves most, in its busier direction
  Seconds time = 0;   // of that link
};

struct NetworkSummary {
  std::vector<LinkBytes> links;  // of all exchanges of a step, by node
  std::vector<NetworkUse> uses;  // in the order of the step
  Bytes busiest() const { return busiest_of(links); }
};

// Empty where the plan is for one node.
NetworkSummary network_of(const Plan& plan);

// "ethernet 200 Mbit/s, 50 us"
std::string to_text(const NetworkSpec& network);
// "4 nodes, ethernet 200 Mbit/s, 50 us: the busiest link moves 12.0 MiB a step, 503.3 ms: ..."; empty for one node.
std::string network_text(const Plan& plan);
// A table of the bytes of each node's link; empty for one node.
std::string network_table(const Plan& plan);

}  // namespace xrun::planner
