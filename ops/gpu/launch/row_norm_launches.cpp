// softmax, l2norm, layer_norm and rms_norm, sixteen threads for each row of numbers. softmax and l2norm along a
// dimension that is not contiguous transpose their operands in working memory.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/copies.h"
#include "ops/gpu/launch/operators.h"
#include "ops/loops/fibers.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

// softmax and l2norm, and their gradients: functions of one or two tensors of the shape of the result.
Made make_along(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  const bool gradient = spec.op->name.ends_with(".grad");
  const std::string_view function = spec.op->name.substr(0, spec.op->name.find('.'));
  if (function == "softmax" && x.dtype != DType::kF32) {
    return no_gpu_kernel(spec, std::string(name_of(x.dtype)) + " tensors");
  }
  XRUN_ASSIGN(const std::string ending, type_ending(spec, x.dtype));
  const std::string kernel = std::string(function) + (gradient ? "_grad" : "") + ending;
  const Fibers fibers(x, nullptr, spec.node.rows, spec.node.attrs.integer("axis", -1));
  const int64_t columns = fibers.size(), inner = fibers.stride();
  if (columns > kMostTransposed || inner > kMostTransposed) {
    return no_gpu_kernel(spec, "dimensions of more than " + std::to_string(kMostTransposed));
  }
  const Bytes bytes = spec.for_blocks(spec.elements(x, 1) * size_of(x.dtype));
  const auto run = [=](LaunchList& list, int64_t blocks) {
    const int64_t rows = spec.elements(x, blocks) / columns;
    std::vector<GpuArgument> operands;
    for (int i = 0; i < (gradient ? 2 : 1); ++i) {
      operands.push_back(inner == 1 ? in(i) : scratch(i * bytes));
      if (inner > 1) {
        add_transposes(list, size_of(x.dtype), in(i), operands.back(), rows / inner, columns, inner);
      }
    }
    // The result may replace the first operand, since each thread reads its elements before it writes them.
    const GpuArgument result = inner == 1 ? out(0) : scratch((gradient ? 2 : 1) * bytes);
    if (gradient) {
      list.each("softmax", kernel, rows * kThreadsOfRow, operands[0], operands[1], result, rows, columns);
    } else {
      list.each("softmax", kernel, rows * kThreadsOfRow, operands[0], result, rows, columns);
    }
    if (inner > 1) {
      add_transposes(list, size_of(x.dtype), result, out(0), rows / inner, inner, columns);
    }
  };
  return gpu_kernel_of(spec, run, inner == 1 ? 0 : (gradient ? 3 : 2) * bytes);
}

// Inputs of layer_norm: x, weight, bias; of rms_norm: x, weight.
Made make_norm(const GpuSpec& spec) {
  XRUN_ASSIGN(const std::string ending, type_ending(spec, spec.node.inputs[0].dtype));
  return gpu_kernel_of(spec, [spec, ending](LaunchList& list, int64_t blocks) {
    const int64_t columns = spec.node.inputs[0].dims.back();
    const int64_t rows = spec.elements(spec.node.inputs[0], blocks) / columns;
    const auto eps = static_cast<float>(spec.node.attrs.real("eps"));
    const std::string kernel = std::string(spec.op->name) + ending;
    if (spec.node.inputs.size() > 2) {
      list.each("layer_norm", kernel, rows * kThreadsOfRow, in(0), in(1), in(2), out(0), rows, columns, eps);
    } else {
      list.each("layer_norm", kernel, rows * kThreadsOfRow, in(0), in(1), out(0), rows, columns, eps);
    }
  });
}

// Inputs: x, dy, weight. Outputs: dx, dweight, and for layer_norm dbias. The working memory has mean and 1 / sqrt(var +
// eps) of each row.
Made make_norm_grad(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  XRUN_ASSIGN(const std::string ending, type_ending(spec, x.dtype));
  const int64_t columns = x.dims.back();
  const Bytes bytes = spec.for_blocks(spec.elements(x, 1) / columns * 4);
  const auto run = [spec, ending, columns, bytes](LaunchList& list, int64_t blocks) {
    const int64_t block_rows = spec.elements(spec.node.inputs[0], 1) / columns;
    const int64_t rows = block_rows * blocks;
    const std::string kernel = spec.op->name == "rms_norm.grad" ? "rms_norm_grad" : "layer_norm_grad";
    list.each("layer_norm", kernel + ending, rows * kThreadsOfRow, in(0), in(1), in(2), out(0), scratch(),
              scratch(bytes), rows, columns, static_cast<float>(spec.node.attrs.real("eps")));
    const Bytes block = block_rows * columns * size_of(spec.node.inputs[0].dtype);
    for (int64_t b = 0; b < blocks; ++b) {
      list.add("layer_norm", "row_norm_weights" + ending, {pieces_of(columns, kColumnsOfBlock), 1, 1},
               kThreadsOfColumns, in(0, b * block), in(1, b * block), scratch(b * block_rows * 4),
               scratch(bytes + b * block_rows * 4), out(1), spec.node.outputs.size() > 2 ? out(2) : null_address(),
               block_rows, columns);
    }
  };
  return gpu_kernel_of(spec, run, 2 * bytes);
}

constexpr std::array kOps{
    GpuOp{"softmax", make_along},
    GpuOp{"softmax.grad", make_along},
    GpuOp{"l2norm", make_along},
    GpuOp{"l2norm.grad", make_along},
    GpuOp{"layer_norm", make_norm},
    GpuOp{"rms_norm", make_norm},
    GpuOp{"layer_norm.grad", make_norm_grad},
    GpuOp{"rms_norm.grad", make_norm_grad},
};

}  // namespace

std::span<const GpuOp> row_norm_launches() { return kOps; }

}  // namespace xrun::ops::gpu
