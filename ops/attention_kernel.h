// Kernels of attention.
#pragma once

#include "ops/op.h"

namespace xrun::ops {

// inputs: x, weight and bias of [q k v], those of the projection, and the table of relative places; as infer declares.
Result<std::unique_ptr<Kernel>> make_attention(const KernelSpec& spec);
// inputs: [q k v], do, and the table of relative places, whose gradient is then the second output.
Result<std::unique_ptr<Kernel>> make_attention_grad(const KernelSpec& spec);

}  // namespace xrun::ops
