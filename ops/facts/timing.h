// Measures the times of kernels, heads and updates from which the planner computes costs. Measurements run on random
// data, with the same operands in the caches as in a training step, on one core or on several cores at the same time
// (ops/facts/concurrent_calls.h). A time is that of one core: the median of a few calls, in CPU time of their threads,
// so other programs have little effect.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/layouts/head_shape.h"
#include "graph/settings/specs.h"
#include "ops/op.h"

namespace xrun::ops {

// Which operands a call finds in the caches. If a row block needs more memory than the caches have (`cold`), only
// results of the preceding operator are there; weights, values that the forward pass kept, and outputs come from
// memory.
struct CacheState {
  bool cold = false;
  std::vector<bool> recent;  // for each input: whether it is in the caches although the call is `cold`
};

// time_kernel measures one call; time_prepare measures making the prepared form of input `input`. Errors: those of the
// kernel.
//   threads  number of threads that make the call at the same time
Result<Seconds> time_kernel(const Kernel& kernel, const KernelSpec& spec, const CacheState& caches, int threads = 1);
Result<Seconds> time_prepare(const Kernel& kernel, const KernelSpec& spec, int input, const CacheState& caches,
                             int threads = 1);

// Returns the time of one multiply-add of a head pass, measured on a forward pass over one row block and a few class
// blocks. Errors: none.
Result<Seconds> time_head(const HeadShape& shape, Isa isa, int threads = 1);

// Returns the time of an update by SGD with momentum per byte of weights, gradient and state. The update has `weights`
// weights. Errors: none.
Result<Seconds> time_update(int64_t weights, Isa isa, int threads = 1);

// Return the memory that one thread uses for its operands: of a call and its prepared forms, of a head, of an update.
Bytes timed_bytes(const Kernel& kernel, const KernelSpec& spec);
Bytes timed_bytes(const HeadShape& shape);
Bytes timed_bytes(int64_t weights);

}  // namespace xrun::ops
