// Measures kernels, heads and updates on one core and on random data, with caches as in a training step: the measured
// costs of the planner. A time is the median of a few calls in the thread's CPU time, so other programs have little
// effect.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/head_shape.h"
#include "graph/specs.h"
#include "ops/op.h"

namespace xrun::ops {

// The operands that a call finds in the caches. If a row block uses more memory than the caches hold, these are the
// results of the preceding operator; weights, values that the forward pass kept, and outputs come from memory.
struct CacheState {
  bool cold = false;
  std::vector<bool> recent;  // index: input; if cold, whether it is in the caches nevertheless
};

// The time of one call, and of making the prepared form of input `input`.
// Errors: those of the kernel.
Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches);
Result<Seconds> time_prepare(const Kernel& kernel, const KernelSpec& spec, int input, const CacheState& caches);

// The time of one multiply-add of a head pass: the forward pass, on one row block and a few class blocks.
Seconds time_head(const HeadShape& shape, Isa isa);

// Seconds per byte of weights, gradient and state in an update of `weights` weights by SGD with momentum.
Seconds time_update(int64_t weights, Isa isa);

}  // namespace xrun::ops
