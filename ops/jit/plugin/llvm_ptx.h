// Compiles kernels of GPUs to PTX with LLVM's back end for NVPTX.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "ops/jit/gpu_loop.h"

namespace xrun::ops {

// Returns the text of a module with one kernel, kGpuKernel, which an assembler or a driver translates. Several threads
// may call it at once. REQUIRES: the conditions of write_kernel. Errors: XG0824, for example if this LLVM was built
// without the back end.
Result<std::string> write_ptx(const GpuLoop& loop, GpuTarget target);

}  // namespace xrun::ops
