// Fitting: makes programs of candidates, with exact memory and simulated times. If a program does not fit into memory,
// recomputation is added.
#pragma once

#include <optional>
#include <vector>

#include "planner/program/run_memory.h"
#include "planner/search/search.h"

namespace xrun::planner {

// The bytes that programs need beyond the memory that the partition estimates: those of heads, of scratch memory, and
// of the programs and threads besides the training program. Negative if the estimate is too large.
struct Uncounted {
  Bytes total = 0;
  Bytes device = 0;          // the largest device alone
  std::vector<Bytes> nodes;  // empty if there is one node
};

// A candidate for which programs have been made and verified. It may or may not fit into memory.
struct Fitted {
  Candidate candidate;
  Program training;
  Program inference;
  Prediction predicted;
  RunMemory memory;
  Bytes largest_device = 0;  // RunMemory::largest_device
  // Memory of each node over all programs, without that of GPUs; empty if there is one node without GPUs.
  std::vector<Bytes> nodes;
  Uncounted uncounted;  // without kept logits
  Bytes largest_node() const;
};

struct FitInput {
  const SearchInput& search;
  const Module& inference;
  const KernelFacts& inference_facts;
  const Chain& inference_chain;
  const CostModel& inference_cost;
  int* realised = nullptr;  // if given, counts the calls of `realise`, the main work of planning
};

// The memory limits of all devices together, of each device, and of each node. Without the limits of devices and
// nodes, only the total counts. A machine with GPUs has a limit for each of them and for the host of each node.
struct MemoryLimits {
  Bytes total = 0;
  Bytes device = 0;
  Bytes node = 0;
  // Returns the used fraction of the tightest limit; more than 1 if a limit is exceeded.
  double share(Bytes all, Bytes largest_device, Bytes largest_node = 0) const;
  double share(const Fitted& fitted) const {
    return share(fitted.memory.sum(), fitted.largest_device, fitted.largest_node());
  }
  // Returns the used fraction by the estimate of the partition.
  double share(const Candidate& candidate) const {
    return share(candidate.all_stages, candidate.largest_stage, candidate.largest_node());
  }
  bool hold(const Fitted& fitted) const;
  // Returns the limits of the partition for the limits that a candidate exceeds if its programs need `uncounted` beyond
  // its estimate. A limit is negative if nothing is left for stages.
  StageLimits within(const Candidate& candidate, const Uncounted& uncounted) const;
};
MemoryLimits memory_limits(const Module& module, const Machine& machine);
// Returns a text about the limit of each device: "memory_limit is 1.0 GiB", or "an h100 has 74.5 GiB".
std::string device_limit_text(const Machine& machine, Bytes limit);

// Returns the seconds in which workers compute in a step, summed over all workers.
Seconds work_of(const Program& program);

// Sets the predicted duration of each instruction of a training program and returns the prediction of a step. Errors:
// those of `simulate`.
Result<Prediction> predict_step(Program& program, const Module& module, const CostModel& cost);

// Makes and verifies the programs of a candidate, without checking memory limits. Errors: those of emit and of the
// verifier.
Result<Fitted> realise(const FitInput& input, const Candidate& candidate);

// Returns the best of a program that is within the limits and its variants within them. In these, buckets of gradients
// are sent during the last backward pass, heads keep logits in the memory that is left, or more layers run again so
// that more logits are kept.
Result<Fitted> best_variant(const FitInput& input, const MemoryLimits& limits, Fitted whole);

// Makes programs of a candidate that fit into the limits. If the unchanged candidate does not fit, it gets the cheapest
// recomputation with which it fits, unless a hint forbids this. Returns nullopt if it does not fit even if everything
// is recomputed. `smallest` is then the program nearest to the limits, either unchanged or with everything recomputed.
Result<std::optional<Fitted>> fit(const FitInput& input, const Candidate& candidate, const MemoryLimits& limits,
                                  Fitted& smallest);

// Sets the numbers of kept blocks in the shards of `decision`, from which `fitted` was made, since the backward pass
// does not have to compute kept logits again (HeadShape::kept_blocks): as many as fit into the memory that `fitted`
// leaves unused, for the heads where this saves time. Updates the times of the heads. Returns whether any blocks are
// kept (keep_logits.cpp).
bool keep_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits, Decision& decision);

// The memory that is missing to keep all logits for which this saves time, and the time that they would save in a step.
struct MissingLogits {
  Bytes total = 0;   // all devices together
  Bytes device = 0;  // the device that misses most
  Seconds gain = 0;
};
MissingLogits missing_logits(const FitInput& input, const Fitted& fitted, const MemoryLimits& limits);

// Whether `fitted` does not keep all logits for which this saves time.
bool lacks_logits(const FitInput& input, const Fitted& fitted);

}  // namespace xrun::planner
