// The facts of a graph on GPUs (graph/layouts/kernel_facts.h), which need no GPU and no driver.
#pragma once

#include <string_view>

#include "graph/layouts/kernel_facts.h"
#include "graph/settings/gpu_def.h"

namespace xrun::ops {

// Whether GPUs have kernels for an operator: those of ops/gpu, or one that is compiled from its scalar expressions.
bool is_on_gpus(std::string_view op);

// Returns the facts of the nodes of a graph on a kind of GPU. Times come from formulas and the published rates of the
// GPU. Nodes whose operator has no kernel are marked (KernelFact::missing). Products in bf16 read weights in a prepared
// form, rounded to bf16; no kernel has scratch memory.
KernelFacts gpu_facts(const Graph& graph, int64_t norm_rows, bool training, bool deterministic, const GpuDef& gpu);

}  // namespace xrun::ops
