// Measures or estimates the sizes and times of the kernels of a graph. The planner reads them
// (graph/layouts/kernel_facts.h).
#pragma once

#include <map>
#include <string>

#include "graph/layouts/kernel_facts.h"
#include "ops/kernel_spec.h"

namespace xrun::ops {

// The time of one call of a kernel on one core. For a head it is the time per multiply-add, for an update the time per
// byte (ops/facts/timing.h).
struct KernelTime {
  Seconds seconds = 0;
  bool known = false;  // read from a file of times, not measured here
  bool used = false;
};

// Times of kernels. The key is one line of text with everything that a time depends on except the instruction set:
// operator, attributes, types, rows, modes, which inputs are in the caches, and the number of threads that make the
// call at the same time, if there are several.
using KernelTimes = std::map<std::string, KernelTime>;

// The threads that make a call while it is timed, as many as the workers that compute at the same time in a step.
struct TimedThreads {
  int count = 1;
  // The most memory for the operands of all threads. Calls that need more have fewer threads (KernelFacts::threads).
  Bytes memory = 1 * kGiB;
};

// Makes the kernel of every node and records its sizes; equal nodes share one kernel. If `times` is given, kernels
// whose time it lacks are timed in a few calls on random data, and their times are added to it. Times change only the
// plan, never the results. Errors: those of make_kernel.
Result<KernelFacts> collect_facts(const Graph& graph, int64_t norm_rows, bool training, Isa isa, bool deterministic,
                                  KernelTimes* times = nullptr, const TimedThreads& threads = {});

}  // namespace xrun::ops
