// Sizes and times of the kernels of a graph, as the value that the planner reads (graph/kernel_facts.h).
#pragma once

#include "graph/kernel_facts.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {

// Makes the kernel of every node once (alike nodes share one) and asks for its sizes; with `measure`, times a few calls
// of each on random data, one core, warm caches. Times never change what is computed, only the plan.
// Errors: those of make_kernel.
Result<KernelFacts> collect_facts(const Graph& graph, int64_t block_rows, bool training, Isa isa, bool deterministic,
                                  bool measure);

}  // namespace xrun::ops
