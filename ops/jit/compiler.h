// Compiles element-wise loops with the module xrun_jit.so (graph/os/modules.h) and keeps the results in a cache.
// Without the module, or with XRUN_JIT=off, loops are interpreted and give the same bits.
#pragma once

#include <optional>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "ops/jit/gpu_loop.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

// Returns the code of a loop, which is compiled once per process; null if loops are interpreted. The first call opens
// the module. Several threads may call it at once.
LoopCode compile_loop(const LoopForm& form, Isa isa);

// Returns the PTX text of a kernel, which is compiled once per process. A GPU has no interpreter, so a kernel that
// cannot be compiled is an error. Several threads may call it at once. Errors: XG0824: the kernel is not
// supported, the module or LLVM's back end is missing, or XRUN_JIT is `off`.
Result<std::string> compile_ptx(const GpuLoop& loop, GpuTarget target);

// Returns true if XRUN_JIT is `on` (loops are compiled), false if it is `off`. Errors: XG0822 for another word.
Result<bool> choose_jit();
// Sets whether loops that are made from now on are compiled; initially they are. Existing kernels keep their code.
void use_jit(bool compiled);

// Forgets the code of all loops and kernels in this process, so that they are compiled or read from the cache again;
// for measurements. Existing kernels keep their code.
void forget_loops();

struct JitReport {
  std::string compiler;          // such as "LLVM 19.1.7"; empty before the module is open
  std::optional<Error> failure;  // the reason why loops that could be compiled are interpreted
  int compiled = 0;              // number of loops that were compiled
  int from_cache = 0;
  int compiled_kernels = 0;  // number of kernels of GPUs that were compiled
  int kernels_from_cache = 0;
  Seconds open_time = 0;
  Seconds compile_time = 0;  // time to compile loops and kernels or read them from the cache, summed over threads
};
JitReport jit_report();
// Opens the module if it is not open, and returns the report.
JitReport open_jit();

}  // namespace xrun::ops
