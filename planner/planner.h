// The planner's public header: from a prepared module to a plan that is verified, laid out in memory and explained.
#pragma once

#include <functional>

#include "graph/kernel_facts.h"
#include "graph/module.h"
#include "planner/machine.h"
#include "planner/plan.h"
#include "planner/progress.h"

namespace xrun::planner {

// Returns the facts of the kernels of a prepared module for its own `norm_rows`. `training`: it has its backward part.
using FactsOf = std::function<Result<KernelFacts>(const Module& module, bool training)>;

struct PlannerOptions {
  bool deterministic = false;  // in addition to train.deterministic
  int emitted = 6;             // number of best candidates that become programs, to be compared exactly
  FactsOf facts_of = nullptr;  // if given, a smaller row block is among the fixes of a plan that does not fit
  Progress progress = nullptr;
};

// Rejects a module with too many operators or micro-batches for a plan, before the work that grows with them, and one
// whose tensors no machine can store. `prepared`: after its passes; before them, a graph is only rejected if no pass
// can make it small enough. Errors: XG0198, XG0303.
Status check_size(const Module& module, bool prepared);

// Returns the plan with the least predicted time among all legal settings that the hints of `training.schedule` leave
// open.
//   training   prepared with its backward part;  inference  prepared without
//   facts      of the kernels of each graph
// Errors: kInfeasible XG0601 if nothing fits, with plans that do; kContent XG06xx for a hint that cannot be met, with
// its place.
Result<Plan> make_plan(const Module& training, const Module& inference, const KernelFacts& training_facts,
                       const KernelFacts& inference_facts, const Machine& machine, const PlannerOptions& options);

// Fills Plan::graphs and Plan::smaller of a plan that was read from a file, with the module and the facts with which
// the plan was made. Errors: kContent XG0625 if another xrun made it.
Status complete_plan(Plan& plan, const Module& training, const KernelFacts& training_facts);

// Heads with at least this many classes are large: their cost depends on the active classes and on the format of their
// rows, so plans report both choices, and a plan that does not fit has them among its fixes.
inline constexpr int64_t kLargeHead = 100'000;

// Fills Plan::costs if the largest trained head is large: makes a program with the plan's settings for each choice that
// differs from the text's in active classes or in formats. The other arguments are those with which the plan was made.
Status explain_head_choices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts);

// If the batch of `plan` has fewer row blocks than there are devices, adds to the reasons of `replicas` and
// `micro_batches` a row block that would use more of them, and its predicted gain. Takes about as long as a plan. The
// other arguments are those with which the plan was made. Errors: those of `facts_of`.
Status explain_idle_devices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts,
                            const FactsOf& facts_of);

}  // namespace xrun::planner
