// mean, sum and max along a dimension, of a tensor or of a function, whose values are stored in the working memory, and
// their gradients.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <optional>

#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/copies.h"
#include "ops/gpu/launch/operators.h"
#include "ops/loops/broadcast.h"
#include "ops/shape.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

// A tensor whose fibers along a dimension are reduced. In memory it is [outer, size, inner], and kernels read and write
// reduced tensors as [outer, inner].
struct Reduced {
  TensorType full;
  TensorType reduced;
  size_t axis;
  int64_t size, inner;

  Reduced(const TensorType& x, const TensorType& y, const Attrs& attrs)
      : full(x), reduced(y), axis(static_cast<size_t>(checked_axis(x, attrs.integer("axis")))) {
    size = x.dims[axis];
    inner = block_strides(x, 2)[axis];
  }

  int64_t fibers(const GpuSpec& spec, int64_t blocks) const { return spec.elements(full, blocks) / size; }

  // The reduced tensor in its own memory order (operand 0) and in that of the kernels (operand 1), or vice versa.
  StridedLoop<2> loop(int64_t rows, bool to_kernel) const {
    TensorType packed = full;
    packed.dims[axis] = 1;
    std::vector<int64_t> own = block_strides(reduced, rows);
    if (reduced.rank() < full.rank()) {
      own.insert(own.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    }
    const std::vector<int64_t> strides = block_strides(packed, rows);
    return {block_dims(packed, rows), {to_kernel ? strides : own, to_kernel ? own : strides}};
  }
  bool is_packed() const {
    const StridedLoop<2> both = loop(2, false);
    return both.is_one_run() && both.inner_steps()[0] == both.inner_steps()[1];
  }
};

// The type of the function `of`, whose fibers are contiguous.
Result<TensorType> function_type(const GpuSpec& spec) {
  XRUN_ASSIGN(TensorType x, broadcast("combine", spec.node.inputs));
  x.layout = x.has_layouts() ? Layout::kChannelsLast : Layout::kRowMajor;
  x.dtype = DType::kF32;
  return x;
}

// Layout of the working memory: results in the kernels' order or in f32 | values of the function
Made make_reduction(const GpuSpec& spec) {
  std::optional<CompiledLoop> function;
  TensorType x = spec.node.inputs[0];
  if (spec.node.attrs.has("of")) {
    XRUN_ASSIGN(x, function_type(spec));
    XRUN_ASSIGN(ScalarExpr expr, parse_scalar_expr(spec.node.attrs.text("of")));
    XRUN_ASSIGN(function, CompiledLoop::of_map(spec, spec.node.inputs, std::span(&x, 1), std::move(expr)));
  }
  const TensorType& y = spec.node.outputs[0];
  XRUN_TRY(type_ending(spec, y.dtype));
  XRUN_ASSIGN(const std::string ending, type_ending(spec, x.dtype));
  const Reduced along(x, y, spec.node.attrs);
  const bool narrows = x.dtype != y.dtype;
  const Bytes results = narrows || !along.is_packed() ? spec.for_blocks(along.fibers(spec, 1) * size_of(x.dtype)) : 0;
  if (narrows && !along.is_packed()) {
    return no_gpu_kernel(spec, "a function of images in this layout");
  }
  const auto run = [spec, along, function, ending, narrows, results](LaunchList& list, int64_t blocks) {
    const int64_t fibers = along.fibers(spec, blocks);
    GpuArgument from = in(0);
    if (function) {
      from = scratch(results);
      std::vector<GpuArgument> operands;
      for (size_t i = 0; i < spec.node.inputs.size(); ++i) {
        operands.push_back(in(static_cast<int>(i)));
      }
      operands.push_back(from);
      function->add(list, spec.elements(along.full, blocks), std::move(operands));
    }
    const bool max = spec.op->name == "max";
    list.each("fibers", "fiber_" + std::string(spec.op->name) + ending, fibers * (max ? 1 : kThreadsOfRow), from,
              results > 0 ? scratch() : out(0), fibers, along.size, along.inner);
    if (narrows) {
      list.each("cast", "narrow_bf16", fibers, scratch(), out(0), fibers);
    } else if (results > 0) {
      add_copy(list, size_of(along.full.dtype), scratch(), out(0), along.loop(spec.rows(blocks), false));
    }
  };
  return gpu_kernel_of(spec, run, results + (function ? spec.for_blocks(spec.elements(x, 1) * 4) : 0));
}

// The gradients of mean and sum: dy, or dy over the number of elements, for each element of a fiber.
Made make_spread(const GpuSpec& spec) {
  const TensorType& dx = spec.node.outputs[0];
  TensorType dy = spec.node.inputs[0];
  const auto axis = static_cast<size_t>(checked_axis(dx, spec.node.attrs.integer("axis")));
  if (dy.rank() < dx.rank()) {
    dy.dims.insert(dy.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    dy.layout = Layout::kRowMajor;
  }
  ScalarExpr expr;
  ScalarId share = expr.input(0);
  if (spec.op->name == "mean.grad") {
    share = expr.make(ScalarOp::kDiv, share, expr.constant(static_cast<double>(dx.dims[axis])));
  }
  expr.set_results({share});
  XRUN_ASSIGN(const CompiledLoop loop,
              CompiledLoop::of_map(spec, std::span(&dy, 1), std::span(&dx, 1), std::move(expr)));
  return gpu_kernel_of(spec, [spec, loop](LaunchList& list, int64_t blocks) {
    loop.add(list, spec.elements(spec.node.outputs[0], blocks), {in(0), out(0)});
  });
}

// Inputs: dy, x.
Made make_max_grad(const GpuSpec& spec) {
  const Reduced along(spec.node.outputs[0], spec.node.inputs[0], spec.node.attrs);
  XRUN_ASSIGN(const std::string ending, type_ending(spec, along.full.dtype));
  const Bytes size = size_of(along.full.dtype);
  const bool packed = along.is_packed();
  const auto run = [spec, along, ending, size, packed](LaunchList& list, int64_t blocks) {
    const int64_t fibers = along.fibers(spec, blocks);
    if (!packed) {
      add_copy(list, size, in(0), scratch(), along.loop(spec.rows(blocks), true));
    }
    list.each("fibers", "fiber_max_grad" + ending, fibers, in(1), packed ? in(0) : scratch(), out(0), fibers,
              along.size, along.inner);
  };
  return gpu_kernel_of(spec, run, packed ? 0 : spec.for_blocks(along.fibers(spec, 1) * size));
}

constexpr std::array kOps{
    GpuOp{"mean", make_reduction},   GpuOp{"sum", make_reduction},   GpuOp{"max", make_reduction},
    GpuOp{"mean.grad", make_spread}, GpuOp{"sum.grad", make_spread}, GpuOp{"max.grad", make_max_grad},
};

}  // namespace

std::span<const GpuOp> reduction_launches() { return kOps; }

}  // namespace xrun::ops::gpu
