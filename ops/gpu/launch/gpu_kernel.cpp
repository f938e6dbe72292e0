#include "ops/gpu/launch/gpu_kernel.h"

#include <algorithm>

#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

// All operators with launches, in the order of their names.
const std::vector<GpuOp>& all_operators() {
  static const std::vector<GpuOp> all = [] {
    std::vector<GpuOp> ops;
    for (const auto family :
         {attention_launches(), batch_norm_launches(), conv_launches(), copy_launches(), depthwise_launches(),
          elementwise_launches(), embed_launches(), group_norm_launches(), loss_launches(), pool_launches(),
          product_launches(), reduction_launches(), row_norm_launches(), slope_launches(), sum_launches()}) {
      ops.insert(ops.end(), family.begin(), family.end());
    }
    std::ranges::sort(ops, {}, &GpuOp::name);
    return ops;
  }();
  return all;
}

const GpuOp* find_operator(std::string_view name) {
  const auto at = std::ranges::lower_bound(all_operators(), name, {}, &GpuOp::name);
  return at == all_operators().end() || at->name != name ? nullptr : &*at;
}

}  // namespace

std::vector<std::string_view> gpu_operators() {
  std::vector<std::string_view> names;
  std::ranges::transform(all_operators(), std::back_inserter(names), &GpuOp::name);
  return names;
}

bool has_gpu_kernel(std::string_view op) { return find_operator(op) != nullptr; }

Result<std::unique_ptr<GpuKernel>> make_gpu_kernel(const GpuSpec& spec) {
  const GpuOp* const op = find_operator(spec.op->name);
  return op == nullptr ? Result<std::unique_ptr<GpuKernel>>(no_gpu_kernel(spec, "any tensors")) : op->make(spec);
}

Result<std::unique_ptr<GpuKernel>> make_gpu_kernel(const Graph& graph, const Node& node, const GpuOptions& options) {
  auto kernel = make_gpu_kernel(GpuSpec{.op = node.op,
                                        .node = spec_of(graph, node, options.kernel),
                                        .target = options.target,
                                        .most_blocks = options.most_blocks});
  if (!kernel.ok() && !kernel.error().span.valid()) {
    Error error = std::move(kernel).error();
    error.span = node.span;
    return error;
  }
  return kernel;
}

}  // namespace xrun::ops::gpu
