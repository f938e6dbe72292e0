// Products of matrices, as launches for several operators.
#pragma once

#include "ops/dense/einsum_rule.h"
#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

enum class WeightForm : uint8_t { kOutIn, kInOut };  // the weight is [n, k] or [k, n]

// Adds y [m, n] = x [m, k] times a weight of the same type, plus `bias` f32[n] unless it is the null address; m, n and
// k are `rows`, `columns` and `terms`. REQUIRES: `dtype` is f32 or bf16; without a bias if the form is kInOut.
void add_weight_product(LaunchList& list, DType dtype, WeightForm form, const GpuArgument& x, const GpuArgument& weight,
                        const GpuArgument& bias, const GpuArgument& y, int64_t rows, int64_t columns, int64_t terms);

// The kernel of a product of two tensors that both have a batch, and so has the result (batch_products.cpp). Errors:
// XG0824, among others for letters that are summed before the product.
Result<std::unique_ptr<GpuKernel>> make_batch_product(const GpuSpec& spec, const ProductRule& rule);

}  // namespace xrun::ops::gpu
