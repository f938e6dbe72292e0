// Convolutions in which each channel has a window of its own, and their gradients, as launches.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/conv_shape.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

// The arguments from the channels to the dilation.
std::vector<GpuArgument> sizes_of(const dnn::ConvShape& s) {
  std::vector<GpuArgument> arguments;
  for (const int64_t size : {s.channels, s.height, s.width, s.out_height(), s.out_width()}) {
    arguments.push_back(argument_of(static_cast<int32_t>(size)));
  }
  const std::vector<GpuArgument> window = window_arguments(s);
  arguments.insert(arguments.end(), window.begin(), window.end());
  return arguments;
}

constexpr std::array kOps{GpuOp{"dwconv", make_depthwise}};

}  // namespace

Result<std::unique_ptr<GpuKernel>> make_depthwise(const GpuSpec& spec) {
  XRUN_ASSIGN(const std::string ending, type_ending(spec, spec.node.inputs[0].dtype));
  const dnn::ConvShape s = conv_shape_of(spec);
  const bool forward = conv_pass_of(spec) == ConvPass::kForward;
  const auto run = [=](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.outputs[0], blocks);
    std::vector<GpuArgument> arguments{in(0), in(1)};
    if (forward) {
      arguments.push_back(spec.node.inputs.size() > 2 ? in(2) : null_address());
    }
    arguments.insert(arguments.end(), {out(0), argument_of(n)});
    const std::vector<GpuArgument> sizes = sizes_of(s);
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    list.add_to("depthwise", (forward ? "depthwise" : "depthwise_dx") + ending, {pieces_of(n, kThreadsOfBlock), 1, 1},
                {kThreadsOfBlock, 1, 1}, std::move(arguments));
  };
  return gpu_kernel_of(spec, run, 0, rounded_weights(spec, {{.input = 1, .rows = s.channels * s.kernel.area()}}));
}

Result<std::unique_ptr<GpuKernel>> make_depthwise_dw(const GpuSpec& spec) {
  const DType dtype = spec.node.inputs[0].dtype;
  XRUN_ASSIGN(const std::string ending, type_ending(spec, dtype));
  const dnn::ConvShape s = conv_shape_of(spec);
  const int64_t across = pieces_of(s.channels, kColumnsOfBlock) * s.kernel.area();
  const BlockSums sums(spec, across, s.channels * s.kernel.area());
  const auto run = [=](LaunchList& list, int64_t blocks) {
    for_pieces(blocks, kMostBlocks, [&](int64_t begin, int64_t count) {
      const auto address = [&](int input) {
        return in(input, begin * spec.elements(spec.node.inputs[static_cast<size_t>(input)], 1) * size_of(dtype));
      };
      sums.add(list, count, [&](const GpuArgument& to, int64_t apart, int64_t stride) {
        std::vector<GpuArgument> arguments{address(0), address(1), to, argument_of(count * s.rows)};
        const std::vector<GpuArgument> sizes = sizes_of(s);
        arguments.insert(arguments.end(), sizes.begin(), sizes.end());
        arguments.insert(arguments.end(), {argument_of(s.rows), argument_of(stride)});
        list.add_to("depthwise", "depthwise_dw" + ending, {across, apart, 1}, kThreadsOfColumns, std::move(arguments));
      });
    });
  };
  return gpu_kernel_of(spec, run, sums.scratch_bytes());
}

std::span<const GpuOp> depthwise_launches() { return kOps; }

}  // namespace xrun::ops::gpu
