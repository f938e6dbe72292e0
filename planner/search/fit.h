// Fitting: candidates become programs with exact memory and simulated times, and recomputation is added where a
// candidate does not fit without it.
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
  Bytes largest_device = 0;  // of the training program
};

struct FitInput {
  const SearchInput& search;
  const Module& inference;
  const KernelFacts& inference_facts;
  const Chain& inference_chain;
  const CostModel& inference_cost;
  int* realised = nullptr;  // where given, counts the calls of `realise`, the main work of planning
};

// The memory that all devices together, and each of them, may use.
struct MemoryLimits {
  Bytes total = 0;
  Bytes device = 0;  // 0: only the total counts
  // The used fraction of the tighter limit.
  double share(Bytes all, Bytes largest_device) const;
  double share(const Fitted& fitted) const { return share(fitted.memory.sum(), fitted.largest_device); }
  bool hold(const Fitted& fitted) const;
};
MemoryLimits memory_limits(const Module& module, const Machine& machine);

// The arena of the device that has the largest.
Bytes largest_device_of(const Program& program);

// Predicts the instructions of a training program and the time of its step. Errors: those of `simulate`.
Result<Prediction> predict_step(Program& program, const Module& module, const CostModel& cost);

// Makes the programs of a candidate, however much memory they need.
// Errors: those of emit and of the verifier.
Result<Fitted> realise(const FitInput& input, const Candidate& candidate);

// Fits the candidate into the limits: as it is, or with the cheapest recomputation that fits, where no hint forbids it.
// None if even recomputing everything needs too much; `smallest` is then the program nearest to the limits, as it is or
// with everything run again.
Result<std::optional<Fitted>> fit(const FitInput& input, const Candidate& candidate, const MemoryLimits& limits,
                                  Fitted& smallest);

}  // namespace xrun::planner
