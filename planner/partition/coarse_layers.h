// Merges layers of very long chains into groups for `partition`, whose tables grow with the square of the number of
// layers.
#pragma once

#include <vector>

#include "planner/partition/partition.h"

namespace xrun::planner {

struct CoarseLayers {
  PartitionRequest request;  // request for the groups
  std::vector<int> begin;    // first layer of each group; the number of layers at the end
};

// Returns the largest number of layers that are not merged: the tables grow with its square.
int most_layers(const PartitionRequest& request);

// Merges neighbouring layers into about `most` groups with equal numbers of layers. A group also ends at the last legal
// cut, and between layers that are pinned to different stages. The times and bytes of layers that are marked to run
// again are those with recomputation.
CoarseLayers merge_layers(const PartitionRequest& request, int most);

// Converts stages of groups into stages of the layers of `request`. If a group runs again, all of its layers do.
void refine(const PartitionRequest& request, const CoarseLayers& coarse, Partition& partition);

// Longer chains are cut only between groups, since a table of their stages would be too large.
inline constexpr int kMostMovedLayers = 2048;

// Returns the request with no other cuts than those within `reach` layers of the cuts of `known`.
PartitionRequest near_cuts(const PartitionRequest& request, const Partition& known, int reach);

}  // namespace xrun::planner
