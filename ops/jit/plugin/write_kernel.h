// Writes a kernel of a GPU as an LLVM function.
#pragma once

#include <llvm/IR/Module.h>

#include "ops/jit/gpu_loop.h"

namespace xrun::ops {

// Adds the kernel kGpuKernel to the module, whose target is NVPTX. REQUIRES: check(loop) succeeds, and the expression
// has no unneeded nodes.
void write_kernel(const GpuLoop& loop, llvm::Module& module);

}  // namespace xrun::ops
