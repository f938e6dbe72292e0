// Balance: cuts the layers into contiguous stages so that the largest stage is as small as possible, regardless of
// memory (docs/internals/algorithms.md, "Balanced cuts").
#pragma once

#include <vector>

namespace xrun::planner {

// The first layer of each stage, followed by the number of layers: stage s has the layers cuts[s] .. cuts[s + 1] - 1.
// No stage is empty.
using Cuts = std::vector<int>;

// Returns the cuts that minimise the largest stage. `weights` has the weight of each layer; the size of a stage is the
// sum of its weights. Found by bisection over the size of the largest stage, O(64 n). The result is exact because the
// bisection ends at neighbouring floating-point numbers. REQUIRES: 1 <= stages <= number of weights.
Cuts balance(const std::vector<double>& weights, int stages);

}  // namespace xrun::planner
