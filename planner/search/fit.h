// Fitting: candidates become programs with exact memory and simulated times, and recomputation is added if a candidate
// does not fit without it.
#pragma once

#include <optional>
#include <vector>

#include "planner/run_memory.h"
#include "planner/search/search.h"

namespace xrun::planner {

// A candidate as a verified pair of programs.
struct Fitted {
  Candidate candidate;
  Program training;
  Program inference;
  Prediction predicted;
  RunMemory memory;
  Bytes largest_device = 0;  // arena bytes of the training program
  Bytes largest_node = 0;    // largest of all programs, in a cluster; else 0
};

struct FitInput {
  const SearchInput& search;
  const Module& inference;
  const KernelFacts& inference_facts;
  const Chain& inference_chain;
  const CostModel& inference_cost;
  int* realised = nullptr;  // if given, counts the calls of `realise`, the main work of planning
};

// The memory limits of all devices together, of each device, and of each node.
struct MemoryLimits {
  Bytes total = 0;
  Bytes device = 0;  // 0: only the total counts
  Bytes node = 0;    // 0: there is one node
  // The used fraction of the tightest limit.
  double share(Bytes all, Bytes largest_device, Bytes largest_node = 0) const;
  double share(const Fitted& fitted) const {
    return share(fitted.memory.sum(), fitted.largest_device, fitted.largest_node);
  }
  bool hold(const Fitted& fitted) const;
};
MemoryLimits memory_limits(const Module& module, const Machine& machine);

// The size of the largest arena of a device.
Bytes largest_device_of(const Program& program);

// The arena bytes of the node that has the most, its host arena included.
Bytes largest_node_of(const Program& program, const Machine& machine);

// Predicts the instructions of a training program and the time of its step. Errors: those of `simulate`.
Result<Prediction> predict_step(Program& program, const Module& module, const CostModel& cost);

// Makes the programs of a candidate, however much memory they need. Errors: those of emit and of the verifier.
Result<Fitted> realise(const FitInput& input, const Candidate& candidate);

// Fits the candidate into the limits: unchanged, or with the cheapest recomputation that fits, unless a hint forbids
// it. Nullopt if even recomputing everything needs too much; `smallest` is then the program nearest to the limits,
// unchanged or with everything run again.
Result<std::optional<Fitted>> fit(const FitInput& input, const Candidate& candidate, const MemoryLimits& limits,
                                  Fitted& smallest);

}  // namespace xrun::planner
