// The compiler of element-wise loops: the module xrun_jit.so (graph/base/modules.h), and a cache of what it compiled. If
// there is no such module, or with XRUN_JIT=off, loops are interpreted, with the same bits.
#pragma once

#include <optional>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

// The code of a loop, compiled once per process; null if loops are interpreted. Opens the module at the first call.
// Any number of threads.
LoopCode compile_loop(const LoopForm& form, Isa isa);

// The request of XRUN_JIT: `on` or `off`. Errors: XG0822 for another word.
Result<bool> choose_jit();
// Whether loops are compiled from now on; initially true. Kernels keep the code that they have.
void use_jit(bool compiled);

// Makes loops anew, if possible from the cache: for measurements. Kernels keep the code that they have.
void forget_loops();

struct JitReport {
  std::string compiler;          // "LLVM 19.1.7"; empty before the module is open
  std::optional<Error> failure;  // the reason why loops that could be compiled are interpreted
  int compiled = 0;              // number of loops
  int from_cache = 0;
  Seconds open_time = 0;
  Seconds compile_time = 0;  // time for the loops, compiled or read, summed over threads
};
JitReport jit_report();
// Opens the module if it is not open: for reports.
JitReport open_jit();

}  // namespace xrun::ops
