// The facts of a graph on GPUs (graph/layouts/kernel_facts.h), which need no GPU and no driver.
#pragma once

#include "graph/layouts/kernel_facts.h"
#include "graph/settings/gpu_def.h"

namespace xrun::ops {

// Returns the facts of the nodes of a graph on a kind of GPU. Scratch memory and prepared forms are those of the lists
// of launches (ops/gpu/launch/gpu_kernel.h), made without a compiler. Times come from formulas and the published rates
// of the GPU. A node for which no list can be made has the reason (KernelFact::missing).
KernelFacts gpu_facts(const Graph& graph, int64_t norm_rows, bool training, bool deterministic, const GpuDef& gpu);

}  // namespace xrun::ops
