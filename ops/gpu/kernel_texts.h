// The PTX of the kernels of GPUs, ops/gpu/*.cu, compiled into the binary from ops/gpu/ptx.tar.xz, so that no build
// needs nvcc (docs/internals/gpu_kernels.md). Parameters and launches are described at each kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun::ops::gpu {

// The module of the file ops/gpu/NAME.cu for GPUs from compute capability 8.0 or 9.0 on (`compute` is 80 or 90).
// REQUIRES: there is such a file.
std::string_view kernel_text(int compute, std::string_view name);

// The names of the modules, in order.
std::vector<std::string_view> kernel_modules();

}  // namespace xrun::ops::gpu
