// What `schedule` says of single layers: pins to stages, and layers that run again in the backward pass.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/search/chain.h"
#include "planner/search/partition.h"

namespace xrun::planner {

// Hints about single layers, by position in the chain: the stage that a layer is pinned to (-1: any), and whether it is
// to run again.
struct LayerHints {
  Recompute recompute = Recompute::kNone;
  bool hinted = false;  // recompute was given
  std::vector<int> pinned;
  std::vector<bool> again;
};

// Errors: kContent XG0604, a path that names no layer, or more shards than class blocks; XG0608, a pin to a stage that
// is not there, or pins that differ of operators that are computed together.
Result<LayerHints> layer_hints(const Module& module, const Chain& chain);

}  // namespace xrun::planner
