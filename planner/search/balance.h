// Balance: contiguous cuts of layers into stages that minimise the largest stage, regardless of memory
// (docs/internals/algorithms.md, "Balanced cuts").
#pragma once

#include <vector>

namespace xrun::planner {

// Stage s has layers cuts[s] .. cuts[s + 1] - 1; there are stages + 1 entries, and no stage is empty.
using Cuts = std::vector<int>;

// The cuts that minimise the largest stage, by dynamic programming over all cuts, O(stages n²); `weights` has a number
// for each layer. REQUIRES: 1 <= stages <= number of weights.
Cuts balance(const std::vector<double>& weights, int stages);
// The optimum by bisection over the answer, O(64 n): exact, as it ends between neighbouring numbers.
Cuts balance_by_bisection(const std::vector<double>& weights, int stages);
// The largest stage of these cuts.
double bottleneck(const std::vector<double>& weights, const Cuts& cuts);

}  // namespace xrun::planner
