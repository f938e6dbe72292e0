// Search: finds for every legal setting the best cuts by exact partition and simulated schedule, as decisions to emit.
#pragma once

#include <vector>

#include "planner/plan.h"
#include "planner/progress.h"
#include "planner/search/decision.h"
#include "planner/search/layer_hints.h"
#include "planner/search/space.h"

namespace xrun::planner {

// The input of a search. All of it must outlive the calls.
struct SearchInput {
  const Module& module;  // prepared with its backward part
  const Chain& chain;
  const CostModel& cost;
  const Machine& machine;
  LayerHints hints;
  bool deterministic = false;
  Progress progress = nullptr;

  void begin(const std::string& what) const {
    if (progress) {
      progress(what);
    }
  }
};

struct Candidate {
  Setting setting;
  Recompute recompute = Recompute::kNone;
  Decision decision;
  Prediction predicted;
  Bytes largest_stage = 0;  // estimate of the partition
  Bytes all_stages = 0;     // estimate for all replicas together
  Bytes largest_node = 0;   // estimate for the node with most, in a cluster
};

// The memory that the stages of a pipeline may hold; 0: no limit.
struct StageLimits {
  Bytes stage = 0;  // limit of each stage
  Bytes total = 0;  // limit of all stages of one replica; only with Recompute::kAuto
};

// The best decision for a setting, in a list of one; the list is empty if no cuts are within the limits and satisfy the
// pins. Errors: those of plan_heads.
Result<std::vector<Candidate>> decide(const SearchInput& input, const Setting& setting, Recompute recompute,
                                      const StageLimits& limits = {});

// One candidate per legal setting, fastest first; ties go to fewer stages, then micro-batches, then replicas.
Result<std::vector<Candidate>> search(const SearchInput& input, const std::vector<Setting>& settings);

// The forward-only decision with these cuts, devices and shards for the graph without loss and backward part.
// `training` is the graph of `decision`. Errors: those of plan_heads.
Result<Decision> decide_inference(const Module& inference, const Chain& chain, const CostModel& cost,
                                  const Graph& training, const Decision& decision);

}  // namespace xrun::planner
