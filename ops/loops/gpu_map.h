// The kernel of a GPU that computes a scalar expression for each element of broadcast operands, as BroadcastLoop does
// on CPUs.
#pragma once

#include <cstdint>
#include <span>

#include "graph/base/result.h"
#include "graph/types/tensor_type.h"
#include "ops/jit/gpu_loop.h"

namespace xrun::ops {

// One launch computes any number of rows up to `most_rows`: the rows of all row blocks are contiguous, and `elements`
// of the launch is rows · elements of a row. The kernel does not depend on `most_rows`, except that large indices have
// 64 bits. REQUIRES: broadcast() of these types succeeds (ops/loops/broadcast.h). Errors: XG0824 for what a kernel
// cannot do (ops/jit/gpu_loop.h), and for operands with a value for each row block.
Result<GpuLoop> gpu_map(std::span<const TensorType> inputs, std::span<const TensorType> outputs, ScalarExpr expr,
                        int64_t most_rows);

}  // namespace xrun::ops
