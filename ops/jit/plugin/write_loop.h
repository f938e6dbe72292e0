// Writes an element-wise loop as an LLVM function.
#pragma once

#include <llvm/IR/Module.h>

#include "ops/jit/loop_form.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

inline constexpr const char* kLoopSymbol = "xrun_loop";

// Adds the function `void xrun_loop(inputs, outputs, elements)`, a LoopCode for `isa`, to the module. REQUIRES: the
// conditions of ElementLoop, and an expression without unneeded nodes.
void write_loop(const LoopForm& form, Isa isa, llvm::Module& module);

}  // namespace xrun::ops
