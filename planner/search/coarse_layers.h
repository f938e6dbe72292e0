// Shortens very long chains for `partition`, whose tables grow with the square of the layers.
#pragma once

#include <vector>

#include "planner/search/partition.h"

namespace xrun::planner {

struct CoarseLayers {
  PartitionRequest request;  // request for the groups
  std::vector<int> begin;    // first layer of each group; the number of layers at the end
};

// Merges neighbouring layers into about `most` groups of equal numbers of layers. Groups end before the last legal cut
// and where layers are pinned to different stages. Layers that are marked to run again are counted as run again.
CoarseLayers merge_layers(const PartitionRequest& request, int most);

// Turns stages of groups into stages of the layers of `request`; a group that runs again becomes all of its layers.
void refine(const PartitionRequest& request, const CoarseLayers& coarse, Partition& partition);

}  // namespace xrun::planner
