// Pooling of images as launches.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/dnn/window.h"
#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

// The arguments of a window, in the order of the kernels' parameters.
std::vector<GpuArgument> window_of(const TensorType& x, const TensorType& y, const Attrs& attrs) {
  const Extents k = extents_of(attrs, "k");
  const Extents stride = extents_of(attrs, "stride", {1, 1});
  const Extents pad = extents_of(attrs, "pad", {(k.h - 1) / 2, (k.w - 1) / 2});
  std::vector<GpuArgument> arguments;
  for (const int64_t size :
       {x.dims[1], x.dims[2], x.dims[3], y.dims[2], y.dims[3], k.h, k.w, stride.h, stride.w, pad.h, pad.w}) {
    arguments.push_back(argument_of(static_cast<int32_t>(size)));
  }
  return arguments;
}

// max_pool and avg_pool, and their gradients, one thread for each element of the result. Inputs of the gradients: x
// (only for max_pool), dy.
Made make_pool(const GpuSpec& spec) {
  XRUN_ASSIGN(std::string kernel, type_ending(spec, spec.node.inputs[0].dtype));
  const bool gradient = spec.op->name.ends_with(".grad");
  kernel.insert(0, std::string(spec.op->name.substr(0, 8)) + (gradient ? "_grad" : ""));
  const TensorType& result = spec.node.outputs[0];
  const std::vector<GpuArgument> window = gradient ? window_of(result, spec.node.inputs.back(), spec.node.attrs)
                                                   : window_of(spec.node.inputs[0], result, spec.node.attrs);
  return gpu_kernel_of(spec, [spec, kernel, window](LaunchList& list, int64_t blocks) {
    std::vector<GpuArgument> arguments;
    for (size_t i = 0; i < spec.node.inputs.size(); ++i) {
      arguments.push_back(in(static_cast<int>(i)));
    }
    const int64_t n = spec.elements(spec.node.outputs[0], blocks);
    arguments.insert(arguments.end(), {out(0), argument_of(n)});
    arguments.insert(arguments.end(), window.begin(), window.end());
    list.add_to("pool", kernel, {pieces_of(n, kThreadsOfBlock), 1, 1}, {kThreadsOfBlock, 1, 1}, std::move(arguments));
  });
}

Made make_global(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  XRUN_ASSIGN(const std::string ending, type_ending(spec, x.dtype));
  const int64_t channels = x.dims[1], sample = x.row_elements();
  return gpu_kernel_of(spec, [=, size = size_of(x.dtype)](LaunchList& list, int64_t blocks) {
    for_pieces(spec.rows(blocks), kMostBlocks, [&](int64_t begin, int64_t samples) {
      list.add("pool", "global_avg_pool" + ending, {pieces_of(channels, kColumnsOfBlock), samples, 1},
               kThreadsOfColumns, in(0, begin * sample * size), out(0, begin * channels * size), sample / channels,
               channels);
    });
  });
}

Made make_global_grad(const GpuSpec& spec) {
  const TensorType& dx = spec.node.outputs[0];
  XRUN_ASSIGN(const std::string ending, type_ending(spec, dx.dtype));
  return gpu_kernel_of(spec, [=](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(dx, blocks);
    list.each("pool", "global_avg_pool_grad" + ending, n, in(0), out(0), n, dx.dims[2] * dx.dims[3], dx.dims[1]);
  });
}

constexpr std::array kOps{
    GpuOp{"max_pool", make_pool},          GpuOp{"max_pool.grad", make_pool},
    GpuOp{"avg_pool", make_pool},          GpuOp{"avg_pool.grad", make_pool},
    GpuOp{"global_avg_pool", make_global}, GpuOp{"global_avg_pool.grad", make_global_grad},
};

}  // namespace

std::span<const GpuOp> pool_launches() { return kOps; }

}  // namespace xrun::ops::gpu
