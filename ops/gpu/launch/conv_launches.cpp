// Convolutions and transposed convolutions, and their gradients, as launches. A launch has at most as many row blocks
// as its kernel can count positions of.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <limits>

#include "ops/gpu/launch/conv_shape.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr int64_t kTile = 64;                    // rows and columns of a thread block
constexpr int64_t kMostCounted = (1 << 30) - 1;  // positions of a launch, and terms of a sum
constexpr int64_t kMostTiles = std::numeric_limits<int32_t>::max();
// A weight gradient with fewer thread blocks leaves multiprocessors without work: an H100 has 132, with two blocks
// each.
constexpr int64_t kEnoughThreadBlocks = 264;

constexpr Sizes threads_of(DType dtype) { return {dtype == DType::kBF16 ? 128 : 256, 1, 1}; }

// The arguments of a launch after its addresses, and before `packed` or the rows of a row block.
std::vector<GpuArgument> sizes_of(const dnn::ConvShape& s, int64_t images) {
  std::vector<GpuArgument> arguments;
  for (const int64_t size : {images, s.channels, s.height, s.width, s.out_channels, s.out_height(), s.out_width()}) {
    arguments.push_back(argument_of(static_cast<int32_t>(size)));
  }
  const std::vector<GpuArgument> window = window_arguments(s);
  arguments.insert(arguments.end(), window.begin(), window.end());
  arguments.push_back(argument_of(static_cast<int32_t>(s.groups)));
  return arguments;
}

// Returns the row blocks of a launch whose grid has `tiles` thread blocks for each 64 positions. Errors: XG0824.
Result<int64_t> blocks_of_launch(const GpuSpec& spec, const dnn::ConvShape& s, int64_t tiles) {
  const int64_t cells = s.kernel.area();
  const int64_t terms = std::max(s.channels, s.out_channels) / s.groups * cells;
  const int64_t positions = s.rows * std::max(s.height * s.width, s.out_height() * s.out_width());
  const int64_t blocks = std::min(kMostCounted, (kMostTiles / tiles - 1) * kTile) / positions;
  if (blocks < 1 || terms > kMostCounted) {
    return no_gpu_kernel(spec, blocks < 1 ? "row blocks with so many positions" : "windows with so many weights");
  }
  return blocks;
}

Made make_conv(const GpuSpec& spec) {
  const dnn::ConvShape s = conv_shape_of(spec);
  if (is_depthwise(s)) {
    return make_depthwise(spec);
  }
  const TensorType& from = spec.node.inputs[0];
  const TensorType& to = spec.node.outputs[0];
  XRUN_ASSIGN(const std::string ending, type_ending(spec, from.dtype));
  const bool forward = conv_pass_of(spec) == ConvPass::kForward;
  const int64_t positions = s.rows * (forward ? s.out_height() * s.out_width() : s.height * s.width);
  const int64_t across = s.groups * pieces_of((forward ? s.out_channels : s.channels) / s.groups, kTile);
  XRUN_ASSIGN(const int64_t most, blocks_of_launch(spec, s, across));
  const auto run = [=](LaunchList& list, int64_t blocks) {
    const bool biased = spec.node.inputs.size() > 2;
    for_pieces(blocks, most, [&](int64_t begin, int64_t count) {
      std::vector<GpuArgument> arguments{in(0, begin * spec.elements(from, 1) * size_of(from.dtype)), in(1)};
      if (forward) {
        arguments.push_back(biased ? in(2) : null_address());
      }
      arguments.push_back(out(0, begin * spec.elements(to, 1) * size_of(to.dtype)));
      const std::vector<GpuArgument> sizes = sizes_of(s, count * s.rows);
      arguments.insert(arguments.end(), sizes.begin(), sizes.end());
      arguments.push_back(argument_of(from.dtype == DType::kBF16 ? 1 : 0));
      list.add_to("conv", (forward ? "conv" : "conv_dx") + ending, {pieces_of(count * positions, kTile) * across, 1, 1},
                  threads_of(from.dtype), std::move(arguments));
    });
    if (!forward && biased) {
      const int64_t n = spec.elements(to, blocks);
      list.each("arithmetic", "add_bias" + ending, n, out(0), in(2), out(0), n, static_cast<int32_t>(s.channels));
    }
  };
  const RoundedWeight weight{
      .input = 1, .rows = s.out_channels, .columns = s.channels / s.groups, .depth = s.kernel.area()};
  return gpu_kernel_of(spec, run, 0, rounded_weights(spec, {weight}));
}

// Inputs: x, dy.
Made make_conv_dw(const GpuSpec& spec) {
  const dnn::ConvShape s = conv_shape_of(spec);
  if (is_depthwise(s)) {
    return make_depthwise_dw(spec);
  }
  const DType dtype = spec.node.inputs[0].dtype;
  XRUN_ASSIGN(const std::string ending, type_ending(spec, dtype));
  const int64_t weights = s.channels / s.groups * s.kernel.area();
  const int64_t tiles = s.groups * pieces_of(s.out_channels / s.groups, kTile) * pieces_of(weights, kTile);
  XRUN_ASSIGN(int64_t most, blocks_of_launch(spec, s, 1));
  most = std::min(most, kMostBlocks);
  if (tiles > kMostTiles) {
    return no_gpu_kernel(spec, "so many weights");
  }
  const BlockSums sums(spec, tiles, s.out_channels * weights);
  const auto run = [=](LaunchList& list, int64_t blocks) {
    for_pieces(blocks, most, [&](int64_t begin, int64_t count) {
      const auto address = [&](int input) {
        return in(input, begin * spec.elements(spec.node.inputs[static_cast<size_t>(input)], 1) * size_of(dtype));
      };
      sums.add(list, count, [&](const GpuArgument& to, int64_t apart, int64_t stride) {
        std::vector<GpuArgument> arguments{address(0), address(1), to};
        const std::vector<GpuArgument> sizes = sizes_of(s, count * s.rows);
        arguments.insert(arguments.end(), sizes.begin(), sizes.end());
        arguments.insert(arguments.end(), {argument_of(static_cast<int32_t>(s.rows)), argument_of(stride)});
        list.add_to("conv", "conv_dw" + ending, {tiles, apart, 1}, threads_of(dtype), std::move(arguments));
      });
    });
  };
  return gpu_kernel_of(spec, run, sums.scratch_bytes());
}

constexpr std::array kOps{
    GpuOp{"conv", make_conv},   GpuOp{"conv.dx", make_conv},   GpuOp{"conv.dw", make_conv_dw},
    GpuOp{"deconv", make_conv}, GpuOp{"deconv.dx", make_conv},
};

}  // namespace

ConvPass conv_pass_of(const GpuSpec& spec) {
  return spec.op->name == "conv.dw"                                ? ConvPass::kDw
         : spec.op->name == "conv.dx" || spec.op->name == "deconv" ? ConvPass::kDx
                                                                   : ConvPass::kForward;
}

dnn::ConvShape conv_shape_of(const GpuSpec& spec) {
  const KernelSpec& node = spec.node;
  const ConvPass pass = conv_pass_of(spec);
  const TensorType& x = pass == ConvPass::kDx ? node.outputs[0] : node.inputs[0];
  const TensorType& weight = pass == ConvPass::kDw ? node.outputs[0] : node.inputs[1];
  const Extents k = extents_of(node.attrs, "k");
  return {.rows = node.rows,
          .channels = x.dims[1],
          .height = x.dims[2],
          .width = x.dims[3],
          .out_channels = weight.dims[0],
          .kernel = k,
          .stride = extents_of(node.attrs, "stride", {1, 1}),
          .pad = extents_of(node.attrs, "pad", {k.h / 2, k.w / 2}),
          .dilation = extents_of(node.attrs, "dilation", {1, 1}),
          .groups = x.dims[1] / weight.dims[1]};
}

std::vector<GpuArgument> window_arguments(const dnn::ConvShape& s) {
  std::vector<GpuArgument> arguments;
  for (const Extents& extents : {s.kernel, s.stride, s.pad, s.dilation}) {
    arguments.push_back(argument_of(static_cast<int32_t>(extents.h)));
    arguments.push_back(argument_of(static_cast<int32_t>(extents.w)));
  }
  return arguments;
}

BlockSums::BlockSums(const GpuSpec& spec, int64_t thread_blocks, int64_t elements)
    : scratch_(thread_blocks < kEnoughThreadBlocks ? spec.for_blocks(elements * 4) : 0), elements_(elements) {}

std::span<const GpuOp> conv_launches() { return kOps; }

}  // namespace xrun::ops::gpu
