// Options of a search for a plan.
#pragma once

#include <functional>
#include <string>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"

namespace xrun::planner {

// A function that the search calls when it begins a part of its work: "program 2 of at most 6 (stages = 1)".
using Progress = std::function<void(std::string what)>;

// Returns the facts of the kernels of a prepared module, for the module's own `norm_rows`. `training` states whether
// the module has its backward part.
using FactsOf = std::function<Result<KernelFacts>(const Module& module, bool training)>;

struct PlannerOptions {
  bool deterministic = false;  // in addition to train.deterministic
  int emitted = 6;             // number of best candidates that are made into programs and compared exactly
  FactsOf facts_of = nullptr;  // if given, a smaller row block is among the fixes of a plan that does not fit
  Progress progress = nullptr;
  std::function<bool()> in_time = nullptr;  // if given, the search ends when it is false and a program fits
  bool by_forms = false;  // also plans what the devices cannot run yet (gpu_gaps), with the times of cost forms
  bool fixes = true;      // XG0601 lists changes of the text with which a plan fits; finding them takes long
};

// Heads with at least this many classes are large. The cost of a large head depends on the active classes and on the
// format of its class rows, so plans report the costs of other choices of both. If no plan fits, these choices are
// among the proposed fixes.
inline constexpr int64_t kLargeHead = 100'000;

}  // namespace xrun::planner
