// Explanations of a plan: why each setting was chosen, what else was considered, and what to do when nothing fits.
#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"
#include "planner/search/choose.h"

namespace xrun::planner {

// One line each for stages, replicas, micro-batches, shards and recompute; the first of `choice.fitted` is the plan.
std::vector<Reason> explain(const SearchInput& input, const Choice& choice, const std::vector<Candidate>& candidates);

// The other programs that were compared.
std::vector<Alternative> list_alternatives(const std::vector<Fitted>& fitted);

// Layers that run again in the backward pass, of all stages.
int recomputed_layers(const Program& program);

// Buffers of a device that are alive when it needs most: their sizes add up to its Arena::live_max.
std::vector<BufferId> live_at_peak(const Program& program, int device);

// Memory of a device at that moment by what it is for, largest first: "weights", "activations", ...
struct MemoryPart {
  std::string name;
  Bytes bytes = 0;
};
std::vector<MemoryPart> memory_parts(const Program& program, int device);

// XG0601: what the smallest plan needs, part by part, and changes that fit.
Error explain_infeasible(const SearchInput& input, const Fitted& smallest, const MemoryLimits& limits,
                         const std::vector<std::string>& fixes);

}  // namespace xrun::planner
