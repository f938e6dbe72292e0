// Reads the hints of `schedule` about single layers: pins to stages, and layers that run again in the backward pass.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/partition/partition.h"
#include "planner/search/chain.h"

namespace xrun::planner {

// Hints about single layers, by position in the chain: the stage to which a layer is pinned (-1: any), and whether it
// must run again.
struct LayerHints {
  Recompute recompute = Recompute::kNone;
  bool hinted = false;  // whether the text has the hint `recompute`
  std::vector<int> pinned;
  std::vector<bool> again;
};

// Returns the hints of a module about single layers, after checking them. Errors: kContent XG0604 for a path that names
// no layer, or for more shards than class blocks; XG0608 for a pin to a stage that does not exist, or for different
// pins of operators that are computed together.
Result<LayerHints> layer_hints(const Module& module, const Chain& chain);

}  // namespace xrun::planner
