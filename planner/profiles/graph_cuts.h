// Cuts of a graph of layers into stages, in the order of the graph that allows the best ones
// (docs/internals/algorithms.md, "Cuts of a graph").
#pragma once

#include <vector>

#include "planner/profiles/layer_profile.h"

namespace xrun::planner {

struct GraphCuts {
  // The layers of each stage, in an order in which each layer comes after those that it reads. Every layer is in one
  // stage, and no stage reads a later one.
  std::vector<std::vector<int>> stages;
  Seconds largest = 0;  // the time of the largest stage
  Seconds bound = 0;    // no cuts have a smaller largest stage
};

/// Finds stages whose largest time is small. It is never larger than with the best cuts of three usual orders: that of
/// the text, smallest number first, and depth first. REQUIRES: 1 <= stages <= number of layers.
GraphCuts cut_graph(const LayerProfile& profile, int stages);

}  // namespace xrun::planner
