// Kernels of GPUs for the losses that compare two tensors of one shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ops/jit/gpu_loop.h"

namespace xrun::ops {

struct RowLossKernels {
  GpuLoop loss;      // operands x and target, f32[N, n]; result f32[N], the mean over the elements of each row
  GpuLoop gradient;  // operands x, target and dloss, f32[N]; result f32[N, n], the gradient of x
};

// Returns the kernels of `mse` or `bce` for rows of n elements, which have the bits of the CPU's kernels; nullopt for
// another name.
std::optional<RowLossKernels> row_loss_kernels(std::string_view name, int64_t n);

}  // namespace xrun::ops
