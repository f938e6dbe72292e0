// Sizes and times of the kernels of a graph, as the value that the planner reads (graph/kernel_facts.h).
#pragma once

#include <map>
#include <string>

#include "graph/kernel_facts.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {

// The time of one call on one core with warm caches; of a head, of one multiply-add.
struct KernelTime {
  Seconds seconds = 0;
  bool known = false;  // before the graph asked for it
  bool used = false;
};

// By what a time depends on, but for the instruction set, as a line of text: operator, attributes, types, rows, modes.
using KernelTimes = std::map<std::string, KernelTime>;

// Makes the kernel of every node once (alike nodes share one) and asks for its sizes. With `times`, kernels whose time
// is not among them are timed in a few calls on random data and added. Times never change what is computed, only the
// plan.
// Errors: those of make_kernel.
Result<KernelFacts> collect_facts(const Graph& graph, int64_t norm_rows, bool training, Isa isa, bool deterministic,
                                  KernelTimes* times = nullptr);

}  // namespace xrun::ops
