// The PTX of the kernels of GPUs, ops/gpu/*.cu, compiled into the binary from ops/gpu/ptx.tar.xz, so that no build
// needs nvcc (docs/internals/gpu_kernels.md). Parameters and launches are described at each kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun::ops::gpu {

// Returns the PTX of the file ops/gpu/NAME.cu for GPUs of compute capability 8.0 or 9.0 and later (`compute` is 80 or
// 90). REQUIRES: the file exists.
std::string_view kernel_text(int compute, std::string_view name);

// Returns the names of the files without `.cu`, in alphabetical order.
std::vector<std::string_view> kernel_modules();

}  // namespace xrun::ops::gpu
