// How dX partials of a head's shards reach the device that sums the gradient of a micro-batch's features.
//
// Usually each shard sends its own, one partial for each subtree of its class blocks. Where a node that is not the
// receiver's has several shards next to one another, one of its devices first sums theirs to the subtrees of all their
// blocks together (Kind::kSumDx). These are fewer than those of all the shards, so the network carries less
// (docs/algorithms.md, "Collective costs"). The sum keeps the order of the tree over class blocks.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "planner/program.h"

namespace xrun::planner {

// Shards whose dX partials are sent together.
struct DxPart {
  std::vector<int> shards;  // with rows, ascending; next to one another
  int device = 0;           // sends them: that of the shard, or the one that sums
  ClassRange classes;

  bool is_summed() const { return shards.size() > 1; }
  bool operator==(const DxPart&) const = default;
};

// All shards with rows, in parts, for a sum on device `receiver`. `device_nodes` has the node of each device; empty:
// all are on one. The devices of a node take turns to sum: `turn` picks one.
std::vector<DxPart> dx_parts(const HeadPlan& head, std::span<const int> device_nodes, int receiver, int turn);

// The parts of a sum of micro-batch `gather` of a replica, for the stage that made the features.
std::vector<DxPart> dx_parts(const Program& program, const HeadPlan& head, int stage, int replica, int gather);

// The part of them that is summed and begins with this shard, if there is one.
std::optional<DxPart> summed_part(const Program& program, const HeadPlan& head, int stage, int replica, int gather,
                                  int first_shard);

// The shards of a part, each as a part of its own; the devices that have them.
std::vector<DxPart> shards_of(const HeadPlan& head, const DxPart& part);
std::set<int> devices_of(const HeadPlan& head, const DxPart& part);

// The rows of a replica's micro-batch in the dX partials of a part.
HeadGradientRows dx_rows(const Program& program, const Graph& graph, const HeadPlan& head, const DxPart& part,
                         int replica, int gather);

}  // namespace xrun::planner
