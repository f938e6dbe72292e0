// Choice: picks the few candidates that become programs, to be compared exactly, and finds candidates that do not fit.
#pragma once

#include <vector>

#include "planner/search/fit.h"

namespace xrun::planner {

// Bounds on the work. Candidates with equal numbers of stages and replicas are of one kind; kinds differ so much that
// only programs show which is faster.
struct Effort {
  int wanted = 6;   // programs that fit, in all
  int of_kind = 2;  // programs that fit, of one kind
  int refused = 8;  // candidates of one kind that may turn out not to fit before the kind is given up
};

struct Choice {
  std::vector<Fitted> fitted;    // fastest first
  std::vector<Setting> refused;  // that do not fit: tried, or with weights alone over the limits
  Fitted smallest;               // the program nearest to the limits among those that do not fit
  bool weights_alone = false;    // weights alone exceed the limits, whatever the batch
};

// Makes at most a few programs of each kind, and a few in all where none comes near the limits; then the one with the
// least memory is among them. Where nothing fits, `smallest` is set, unless there is no candidate.
// Errors: those of realise.
Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort);

// Bytes that weights, their states and `partials` partials of gradients take, of all devices together and of the device
// that has most: no cuts and no recomputation bring a program of this kind below it.
struct MemoryFloor {
  Bytes total = 0;
  Bytes device = 0;
  Bytes node = 0;  // of heads alone
};
MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials);

}  // namespace xrun::planner
