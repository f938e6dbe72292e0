// Sizes and times of the kernels of a graph, as the value that the planner reads (graph/kernel_facts.h).
#pragma once

#include <map>
#include <string>

#include "graph/kernel_facts.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {

// The time of one call of a kernel on one core; for a head, per multiply-add; for an update, per byte (ops/timing.h).
struct KernelTime {
  Seconds seconds = 0;
  bool known = false;  // read from a file of times, not measured here
  bool used = false;
};

// The key is a line of text that names everything that a time depends on except the instruction set: operator,
// attributes, types, rows, modes, and which inputs are in the caches.
using KernelTimes = std::map<std::string, KernelTime>;

// Makes the kernel of every node once (equal nodes share one) and records its sizes. If `times` is given, kernels that
// it lacks are timed in a few calls on random data and added. Times change only the plan, never the results. Errors:
// those of make_kernel.
Result<KernelFacts> collect_facts(const Graph& graph, int64_t norm_rows, bool training, Isa isa, bool deterministic,
                                  KernelTimes* times = nullptr);

}  // namespace xrun::ops
