// Explanations of a plan: why each setting was chosen, what else was considered, and what to do if nothing fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/program/plan.h"
#include "planner/search/row_blocks.h"

namespace xrun::planner {

// Returns the reasons for stages, replicas, micro-batches, shards, recompute, the pipeline unless it is GPipe with one
// stage, and the granularity of head passes if the pipeline leaves it open. The first element of `choice.fitted` is the
// plan. `settings` are all settings of the search; some have no candidate.
std::vector<Reason> explain(const SearchInput& input, const Choice& choice, const std::vector<Candidate>& candidates,
                            const std::vector<Setting>& settings);

// Returns the fastest programs that were compared with the plan, which is the first element of `fitted`; fastest first,
// at most five.
std::vector<Alternative> list_alternatives(const Module& module, const std::vector<Fitted>& fitted);

// Returns the fastest plans of the other kinds, fastest first, at most five. A kind is a number of stages, a number of
// replicas and a pipeline. If no program of a kind was made, the plan is an estimate, scaled by what the estimate of
// the chosen plan differs from its program. Kinds of which every candidate that was tried does not fit are left out.
std::vector<Alternative> list_other_kinds(const Module& module, const Choice& choice,
                                          const std::vector<Candidate>& candidates);

// Returns the number of layers of all stages that run again in the backward pass.
int recomputed_layers(const Program& program);

// Returns the buffers of a device that are alive at its peak: their sizes add up to its Arena::live_max.
std::vector<BufferId> live_at_peak(const Program& program, int device);

// The format of the optimizer states of the head at index `head` in Program::heads; nullopt if it has none.
std::optional<RowFormat> states_of(const Program& program, int32_t head);

// Memory of a device at its peak, by purpose, largest first: "weights", "activations", ...
struct MemoryPart {
  std::string name;
  Bytes bytes = 0;
  std::vector<BufferId> buffers = {};  // alive at the peak
};
std::vector<MemoryPart> memory_parts(const Program& program, int device);

// Returns a proposal for a smaller row block. It is nullopt if there are row blocks for all devices, if a hint decides
// the replicas, or if no smaller block is predicted to be faster. Errors: those of `facts_of`.
Result<std::optional<SmallerBlock>> propose_row_block(const Plan& plan, const FitInput& input, const FactsOf& facts_of);

// Returns the error XG0601, which lists the memory of the smallest plan, part by part, and the changes with which a
// plan fits. `rows_too` states whether smaller row blocks were tried.
Error explain_infeasible(const SearchInput& input, const Fitted& smallest, const MemoryLimits& limits,
                         const std::vector<std::string>& fixes, bool rows_too);

}  // namespace xrun::planner
