// The interface between the program and xrun_jit.so, a compiler of loops that is built on LLVM. The program opens it
// when it makes the first kernel that can be compiled; LLVM's types stay inside the module.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "ops/jit/gpu_loop.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

struct LoadedLoop {
  LoopCode code = nullptr;
};

struct JitPlugin {
  std::string_view compiler;  // such as "LLVM 19.1.7"
  // Compiles a loop to object code. Several threads may call it at once. Errors: XG0821.
  Result<std::string> (*compile)(const LoopForm& form, Isa isa);
  // Loads the loop from object code; it stays loaded until the process ends. Several threads may call it at once.
  // Errors: XG0821.
  Result<LoadedLoop> (*load)(std::string_view object);
  // Compiles a kernel of a GPU to PTX (ops/jit/plugin/llvm_ptx.h). Several threads may call it at once. Errors: XG0824.
  Result<std::string> (*compile_ptx)(const GpuLoop& loop, GpuTarget target);
};

// The symbol of the module whose text is the XRUN_JIT_BUILD of the sources from which the module was built. A module of
// another build is not called, since its types may differ.
inline constexpr const char* kJitBuild = "xrun_jit_build";
// The type of the function that opens the module: it starts LLVM, or returns why LLVM does not start.
using OpenJit = Result<const JitPlugin*> (*)();
inline constexpr const char* kOpenJit = "xrun_open_jit";

}  // namespace xrun::ops
