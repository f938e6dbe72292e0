// The families of operators that have launches; each is defined in the source file of its name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "ops/gpu/launch/gpu_kernel.h"

namespace xrun::ops::gpu {

using MakeGpuKernel = Result<std::unique_ptr<GpuKernel>> (*)(const GpuSpec& spec);

struct GpuOp {
  std::string_view name;
  MakeGpuKernel make = nullptr;
};

std::span<const GpuOp> attention_launches();
std::span<const GpuOp> batch_norm_launches();
std::span<const GpuOp> conv_launches();
std::span<const GpuOp> copy_launches();
std::span<const GpuOp> depthwise_launches();
std::span<const GpuOp> elementwise_launches();
std::span<const GpuOp> embed_launches();
std::span<const GpuOp> group_norm_launches();
std::span<const GpuOp> loss_launches();
std::span<const GpuOp> pool_launches();
std::span<const GpuOp> product_launches();
std::span<const GpuOp> reduction_launches();
std::span<const GpuOp> row_norm_launches();
std::span<const GpuOp> slope_launches();  // prelu
std::span<const GpuOp> sum_launches();

}  // namespace xrun::ops::gpu
