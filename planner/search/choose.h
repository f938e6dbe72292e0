// Choice: selects a few candidates, makes programs of them and compares these exactly. It also finds the candidates
// that do not fit into memory.
//
// If that finds no program that fits, every candidate is doubted. After the first candidate of a kind does not fit, the
// candidates of this kind that need the least memory (the leanest) are tried next, with recomputation of everything:
// for each pipeline, the one with the most micro-batches. Under 1F1B, a stage holds one micro-batch for itself and each
// later stage, and a head pass has the rows of one micro-batch per replica, so both need less memory if micro-batches
// are smaller. Under GPipe, only values in transit do. A head with several passes keeps features for the sweep at the
// end of the step, a head with one pass does not, so both are tried. Other pipelines need no less memory than 1F1B.
//
// If the leanest candidates exceed a limit by more than this argument neglects (rounding, gaps between buffers, scratch
// memory of workers), no candidate of the kind fits. The leanest kinds by the estimate of the partition are tried once:
// if none comes near the limits, all kinds are given up. Otherwise candidates are tried by time again.
#pragma once

#include <vector>

#include "planner/search/fit.h"

namespace xrun::planner {

// Bounds on the work of `choose`. Candidates of one kind are defined in planner/search/corrections.h. Estimates of
// different kinds cannot be compared well, so programs of several kinds are made.
struct Effort {
  // Make this many programs that fit, with GPipe or 1F1B unless hints exclude them, and then only of candidates that
  // are predicted faster. If it is 1, make only one program, with any pipeline.
  int wanted = 6;
  int of_kind = 2;  // make no more of a kind among these
  int refused = 8;  // give up a kind, or the search by estimates, after this many candidates that do not fit
};

struct Choice {
  std::vector<Fitted> fitted;    // programs that fit, fastest first
  std::vector<Setting> refused;  // settings that were tried and do not fit, or whose weights exceed the limits
  Fitted smallest;               // the program nearest to the limits, if no program fits
  int compared = 0;              // candidates that were tried
  bool complete = true;          // false: SearchInput::in_time ended the search once a program fitted
  bool weights_alone = false;    // the weights exceed the limits, so no smaller batch can help
};

// Chooses among `candidates`. It makes a few programs of each kind. If no program comes near the limits, it makes only
// a few programs altogether, including the one with the least memory. If nothing fits, `smallest` is set, unless there
// are no candidates. Errors: those of realise.
Result<Choice> choose(const FitInput& input, const std::vector<Candidate>& candidates, const MemoryLimits& limits,
                      const Effort& effort);

// A lower bound of the memory of any program of a candidate's kind, whatever its cuts and recomputation: the bytes of
// weights, their states, `partials` partials of gradients, and the host's graphs of nearest classes. It has the sum
// over all devices and the host, and the largest numbers of bytes of a device and of a node.
struct MemoryFloor {
  Bytes total = 0;
  Bytes device = 0;
  Bytes node = 0;  // heads and the host only
  bool is_within(const MemoryLimits& limits) const;
};
MemoryFloor memory_floor(const SearchInput& input, const Candidate& candidate, int partials);

}  // namespace xrun::planner
