// Choice: of all candidates the few that become programs, to be compared exactly, and which of the others do not fit.
#pragma once

#include <vector>

#include "planner/search/fit.h"

namespace xrun::planner {

// How much is tried. Candidates with as many stages and replicas are of one kind: what is of different kinds is so
// unlike that only programs show which is faster.
struct Effort {
  int wanted = 6;   // programs that fit, in all
  int of_kind = 2;  // programs that fit, of one kind
  int refused = 8;  // candidates of one kind that may turn out not to fit before the kind is left
};

struct Choice {
  std::vector<Fitted> fitted;    // fastest first
  std::vector<Setting> refused;  // do not fit: were tried, or have too many weights
  Fitted smallest;               // of the programs that do not fit the one that is nearest to the limits
  bool weights_alone = false;    // are more than the limits allow, whatever the batch
};

// At most a few programs are made of each kind, and a few in all where nothing comes near the limits; what has the
// least memory is among them. Where nothing fits there is a `smallest`, unless there is no candidate.
// Errors: those of realise.
Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort);

// Bytes that weights, their states and `partials` partials of gradients take, of all devices together and of the device
// that has most: no cuts and no recomputation bring a program of this kind below it.
struct MemoryFloor {
  Bytes total = 0;
  Bytes device = 0;
};
MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials);

}  // namespace xrun::planner
