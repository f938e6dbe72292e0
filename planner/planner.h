// The public header of the planner, which makes a plan from a prepared module. A plan is verified, laid out in memory
// and explained.
#pragma once

#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/program/machine.h"
#include "planner/program/plan.h"
#include "planner/search/options.h"

namespace xrun::planner {

// Rejects a module that has too many operators or micro-batches for a plan, or tensors that no machine can store. It is
// called before any work that grows with these numbers. `prepared` states whether the passes over the graph have run;
// before them, a graph is rejected only if no pass can make it small enough. Errors: XG0198, XG0303.
Status check_size(const Module& module, bool prepared);

// Rejects a prepared module that the GPUs of a machine cannot run: one with operators without kernels for them, or with
// settings for which they have no instructions. Errors: kContent XG0633, XG0634, with the place in the text.
Status check_gpus(const Module& module, const KernelFacts& facts, const Machine& machine);
// Returns all that `check_gpus` would reject, each setting and each operator once.
std::vector<Error> gpu_gaps(const Module& module, const KernelFacts& facts, const Machine& machine);

// Returns the plan with the least predicted time among all legal settings that the hints of `training.schedule` leave
// open. `training` is the module prepared with its backward part, `inference` the module prepared without it; each has
// the facts of its own kernels. Errors: kInfeasible XG0601 if no plan fits, with changes of the text that would fit;
// kContent XG06xx for a hint that cannot be met, with its place.
Result<Plan> make_plan(const Module& training, const Module& inference, const KernelFacts& training_facts,
                       const KernelFacts& inference_facts, const Machine& machine, const PlannerOptions& options);

// Fills the fields of a plan that plan files do not keep, Plan::graphs and Plan::smaller. `training` and
// `training_facts` must be those with which the plan was made. Errors: kContent XG0625 if another version of xrun made
// the plan.
Status complete_plan(Plan& plan, const Module& training, const KernelFacts& training_facts);

// Fills Plan::costs if the largest trained head is large. To this end it makes a program with the plan's settings for
// each choice of active classes or formats that the model text does not make. The other arguments are those with which
// the plan was made.
Status explain_head_choices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts);

// If the batch of `plan` has fewer row blocks than there are devices, some devices are idle. This function then adds to
// the reasons of `replicas` and `micro_batches` a smaller row block that would use more devices, with its predicted
// gain. It takes about as long as making a plan. The other arguments are those with which the plan was made. Errors:
// those of `facts_of`.
Status explain_idle_devices(Plan& plan, const Module& training, const Module& inference,
                            const KernelFacts& training_facts, const KernelFacts& inference_facts,
                            const FactsOf& facts_of);

}  // namespace xrun::planner
