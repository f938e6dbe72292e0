// The PTX of the kernels of GPUs, ops/gpu/*.cu, compiled into the binary from ops/gpu/ptx.tar.xz, so that no build
// needs nvcc, and their machine code (docs/internals/gpu_kernels.md). Parameters and launches are described at each
// kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun::ops::gpu {

// Returns the PTX of the file ops/gpu/NAME.cu for GPUs of compute capability 8.0 or 9.0 and later (`compute` is 80 or
// 90). REQUIRES: the file exists.
std::string_view kernel_text(int compute, std::string_view name);

// Returns machine code for a text that kernel_text has returned, made for GPUs of the compute capability (for example
// 90) and later ones of its generation. Empty if the text is another one or this build has none: then the driver
// compiles the text. Builds have machine code for 80, 90 and 100 if ptxas of CUDA 12.8 or later was found.
std::string_view machine_code(std::string_view text, int capability);
// Returns the machine code of a module for an architecture, for example "pointwise.sm_90"; empty if there is none.
std::string_view machine_code_of(std::string_view name);

// Returns the names of the files without `.cu`, in alphabetical order.
std::vector<std::string_view> kernel_modules();

}  // namespace xrun::ops::gpu
