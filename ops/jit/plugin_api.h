// The interface between the program and xrun_jit.so, a compiler of loops that is built on LLVM. The program opens it
// when it makes the first kernel that can be compiled; types of LLVM stay inside of the module.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

struct LoadedLoop {
  LoopCode code = nullptr;
};

struct JitPlugin {
  std::string_view compiler;  // "LLVM 19.1.7"
  // Object code of a loop. Any number of threads. Errors: XG0821.
  Result<std::string> (*compile)(const LoopForm& form, Isa isa);
  // The loop of object code, for as long as the process runs. Any number of threads. Errors: XG0821.
  Result<LoadedLoop> (*load)(std::string_view object);
};

// XRUN_JIT_BUILD of the sources that the module was built from, a text. A module of another build is not called, since
// types may differ.
inline constexpr const char* kJitBuild = "xrun_jit_build";
// Starts LLVM, or says why it does not start.
using OpenJit = Result<const JitPlugin*> (*)();
inline constexpr const char* kOpenJit = "xrun_open_jit";

}  // namespace xrun::ops
