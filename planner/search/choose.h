// Choice: selects the few candidates that become programs, to be compared exactly, and finds candidates that do not
// fit.
#pragma once

#include <vector>

#include "planner/search/fit.h"

namespace xrun::planner {

// Bounds on the work. Candidates with equal numbers of stages and replicas are one kind; kinds differ so much that only
// programs show which is faster.
struct Effort {
  int wanted = 6;   // total of programs that fit
  int of_kind = 2;  // programs of one kind that fit
  int refused = 8;  // candidates of one kind that may fail to fit before the kind is given up
};

struct Choice {
  std::vector<Fitted> fitted;    // fastest first
  std::vector<Setting> refused;  // settings that do not fit: tried, or with weights alone over the limits
  Fitted smallest;               // the program nearest to the limits among those that do not fit
  bool weights_alone = false;    // weights alone exceed the limits, whatever the batch
};

// Makes at most a few programs of each kind, and a few in all if none comes near the limits; the one with the least
// memory is then among them. If nothing fits, `smallest` is set, unless there is no candidate. Errors: those of
// realise.
Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort);

// Bytes of weights, their states and `partials` partials of gradients, on all devices together and on the device that
// has most: no cuts and no recomputation bring a program of this kind below them.
struct MemoryFloor {
  Bytes total = 0;
  Bytes device = 0;
  Bytes node = 0;  // heads only
};
MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials);

}  // namespace xrun::planner
