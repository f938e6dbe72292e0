// Times of kernels, heads and updates on one core and on random data, as a step of training finds them: measured costs
// of the planner. Each is the median of a few calls in time of the calling thread, so that other programs count little.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/head_shape.h"
#include "graph/specs.h"
#include "ops/op.h"

namespace xrun::ops {

// What a call finds in the caches. In a model whose row blocks go through more memory than the caches hold, that is
// what the operator before has made; weights, values that the forward pass kept and results come from memory.
struct CacheState {
  bool cold = false;
  std::vector<bool> recent;  // of the inputs, where cold: those that are in the caches all the same
};

// Seconds of one call, and of making the prepared form of input `input`.
// Errors: those of the kernel.
Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches);
Result<Seconds> time_prepare(const Kernel& kernel, const KernelSpec& spec, int input, const CacheState& caches);

// Seconds of one multiply-add of a head pass: the forward pass, on one row block and a few class blocks.
Seconds time_head(const HeadShape& shape, Isa isa);

// Seconds of each byte of weights, gradient and state in an update of `weights` weights by SGD with momentum.
Seconds time_update(int64_t weights, Isa isa);

}  // namespace xrun::ops
