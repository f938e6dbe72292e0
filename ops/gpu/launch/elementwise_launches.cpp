// Pointwise functions, arithmetic, maps, casts and dropout. Functions without a kernel of their own are compiled from
// their scalar expressions.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <cmath>

#include "graph/base/random.h"
#include "graph/settings/moved.h"
#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/copies.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;
constexpr std::string_view kGradEnding = ".grad";

// The name of a kernel for the element type of the first input.
Result<std::string> kernel_name(const GpuSpec& spec, std::string_view base) {
  XRUN_ASSIGN(const std::string ending, type_ending(spec, spec.node.inputs[0].dtype));
  return std::string(base) + ending;
}

Made make_written(const GpuSpec& spec) {
  XRUN_ASSIGN(ScalarExpr expr, parse_scalar_expr(spec.op->expr(spec.node.attrs)));
  return make_expression(spec, std::move(expr));
}

// A function that has kernels in pointwise.cu. Those of f16 are compiled, if the expression has the same bits.
Made make_function(const GpuSpec& spec) {
  if (spec.node.inputs[0].dtype == DType::kF16 && spec.op->fuses) {
    return make_written(spec);
  }
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, spec.op->name));
  return gpu_kernel_of(spec, [spec, kernel](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.inputs[0], blocks);
    list.each("pointwise", kernel, n, in(0), out(0), n);
  });
}

Made make_function_grad(const GpuSpec& spec) {
  if (spec.node.inputs[0].dtype == DType::kF16 && spec.op->fuses) {
    return make_written(spec);
  }
  const std::string_view function = spec.op->name.substr(0, spec.op->name.size() - kGradEnding.size());
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, std::string(function) + "_grad"));
  return gpu_kernel_of(spec, [spec, kernel](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.inputs[0], blocks);
    list.each("pointwise_grad", kernel, n, in(0), in(1), out(0), n);
  });
}

// The gradient of a function whose kept value is its operand, derived from the expression of the function.
Made make_derived(const GpuSpec& spec) {
  const std::string_view function = spec.op->name.substr(0, spec.op->name.size() - kGradEnding.size());
  XRUN_ASSIGN(const ScalarExpr expr, parse_scalar_expr(find_op(function)->def.expr(spec.node.attrs)));
  constexpr std::array<int, 1> kWanted{0};
  return make_expression(spec, gradient_of(expr, 1, kWanted));
}

// dx = -dy / sqrt(1 - x * x), which the derivative of the expression rounds once more.
Made make_acos_grad(const GpuSpec& spec) {
  ScalarExpr expr;
  const ScalarId x = expr.input(0);
  const ScalarId rest = expr.make(ScalarOp::kSub, expr.constant(1), expr.make(ScalarOp::kMul, x, x));
  expr.set_results(
      {expr.make(ScalarOp::kDiv, expr.make(ScalarOp::kNeg, expr.input(1)), expr.make(ScalarOp::kSqrt, rest))});
  return make_expression(spec, std::move(expr));
}

ScalarExpr power_of(const GpuSpec& spec) {
  ScalarExpr expr;
  expr.set_results(
      {expr.make(ScalarOp::kPow, expr.input(0), expr.constant(static_cast<float>(spec.node.attrs.real("exponent"))))});
  return expr;
}

Made make_power(const GpuSpec& spec) { return make_expression(spec, power_of(spec)); }

Made make_power_grad(const GpuSpec& spec) {
  constexpr std::array<int, 1> kWanted{0};
  return make_expression(spec, gradient_of(power_of(spec), 1, kWanted));
}

Made make_scale_shift(const GpuSpec& spec) {
  if (spec.node.inputs[0].dtype == DType::kF16) {
    return make_written(spec);
  }
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, "scale_shift"));
  return gpu_kernel_of(spec, [spec, kernel](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.inputs[0], blocks);
    list.each("arithmetic", kernel, n, in(0), out(0), n, static_cast<float>(spec.node.attrs.real("scale", 1)),
              static_cast<float>(spec.node.attrs.real("shift", 0)));
  });
}

// add, sub and mul. Operands of one shape have kernels; sums with a broadcast operand or a relu are compiled.
Made make_arithmetic(const GpuSpec& spec) {
  const std::vector<TensorType>& inputs = spec.node.inputs;
  if (inputs[0] != inputs[1] || inputs[0].layout != inputs[1].layout || inputs[0].dtype == DType::kF16 ||
      spec.node.attrs.flag("relu", false)) {
    return make_written(spec);
  }
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, spec.op->name));
  return gpu_kernel_of(spec, [spec, kernel](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.outputs[0], blocks);
    list.each("arithmetic", kernel, n, in(0), in(1), out(0), n);
  });
}

Made make_where_grad(const GpuSpec& spec) {
  ScalarExpr expr;
  const ScalarId dy = expr.input(1), none = expr.constant(0);
  const bool taken = spec.node.attrs.flag("taken");
  expr.set_results({expr.make(ScalarOp::kSelect, expr.input(0), taken ? dy : none, taken ? none : dy)});
  return make_expression(spec, std::move(expr));
}

Made make_cast(const GpuSpec& spec) {
  const DType from = spec.node.inputs[0].dtype, to = spec.node.outputs[0].dtype;
  if (from == to) {
    return make_copy(spec);
  }
  if (from == DType::kF16 || to == DType::kF16) {
    ScalarExpr expr;
    expr.set_results({expr.input(0)});
    return make_expression(spec, std::move(expr));
  }
  return gpu_kernel_of(spec, [spec, from](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.inputs[0], blocks);
    list.each("cast", from == DType::kBF16 ? "widen_bf16" : "narrow_bf16", n, in(0), out(0), n);
  });
}

Made make_fill(const GpuSpec& spec) {
  GpuArgument value = argument_of(static_cast<float>(spec.node.attrs.real("value")));
  if (spec.node.attrs.flag("scaled", false)) {
    value.kind = GpuArgument::Kind::kLossScale;
  }
  return gpu_kernel_of(spec, [spec, value](LaunchList& list, int64_t blocks) {
    const int64_t n = spec.elements(spec.node.outputs[0], blocks);
    list.each("finite", "fill_f32", n, out(0), n, value);
  });
}

// The hash of the path that is part of the key of an operator's random numbers.
uint64_t path_hash(const GpuSpec& spec) {
  return stable_hash(spec.node.attrs.find(kStreamAttr) != nullptr ? spec.node.attrs.text(kStreamAttr) : spec.node.path);
}

Made make_dropout(const GpuSpec& spec) {
  if (!spec.node.training) {
    return make_copy(spec);
  }
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, "dropout"));
  const double p = spec.node.attrs.real("p");
  const auto keep_from = static_cast<uint32_t>(std::min<int64_t>(std::lround(p * 0x1.0p31) * 2, UINT32_MAX));
  const auto scale = static_cast<float>(1 / (1 - p));
  return gpu_kernel_of(spec, [spec, kernel, keep_from, scale](LaunchList& list, int64_t blocks) {
    const int64_t columns = spec.node.inputs[0].row_elements();
    list.each("dropout", kernel, spec.rows(blocks) * pieces_of(columns, 4), in(0), out(0), spec.rows(blocks), columns,
              of_call(GpuArgument::Kind::kSeed), of_call(GpuArgument::Kind::kStep),
              of_call(GpuArgument::Kind::kFirstRow), path_hash(spec), keep_from, scale);
  });
}

Made make_drop_path(const GpuSpec& spec) {
  if (!spec.node.training) {
    return make_copy(spec);
  }
  XRUN_ASSIGN(const std::string kernel, kernel_name(spec, "drop_path"));
  const auto p = static_cast<float>(spec.node.attrs.real("p"));
  return gpu_kernel_of(spec, [spec, kernel, p](LaunchList& list, int64_t blocks) {
    const int64_t rows = spec.rows(blocks), columns = spec.node.inputs[0].row_elements();
    list.each("drop_path", kernel, rows * columns, in(0), out(0), rows, columns, of_call(GpuArgument::Kind::kSeed),
              of_call(GpuArgument::Kind::kStep), of_call(GpuArgument::Kind::kFirstRow), path_hash(spec), p,
              1.0F / (1.0F - p));
  });
}

constexpr std::array kOps{
    GpuOp{"relu", make_function},
    GpuOp{"gelu", make_function},
    GpuOp{"silu", make_function},
    GpuOp{"sigmoid", make_function},
    GpuOp{"tanh", make_function},
    GpuOp{"exp", make_function},
    GpuOp{"log", make_function},
    GpuOp{"sqrt", make_function},
    GpuOp{"erf", make_function},
    GpuOp{"relu.grad", make_function_grad},
    GpuOp{"gelu.grad", make_function_grad},
    GpuOp{"silu.grad", make_function_grad},
    GpuOp{"sigmoid.grad", make_function_grad},
    GpuOp{"tanh.grad", make_function_grad},
    GpuOp{"exp.grad", make_function_grad},
    GpuOp{"log.grad", make_function_grad},
    GpuOp{"sqrt.grad", make_function_grad},
    GpuOp{"erf.grad", make_function_grad},
    GpuOp{"abs", make_written},
    GpuOp{"neg", make_written},
    GpuOp{"clamp", make_written},
    GpuOp{"sin", make_written},
    GpuOp{"cos", make_written},
    GpuOp{"acos", make_written},
    GpuOp{"abs.grad", make_derived},
    GpuOp{"neg.grad", make_derived},
    GpuOp{"clamp.grad", make_derived},
    GpuOp{"sin.grad", make_derived},
    GpuOp{"cos.grad", make_derived},
    GpuOp{"acos.grad", make_acos_grad},
    GpuOp{"power", make_power},
    GpuOp{"power.grad", make_power_grad},
    GpuOp{"scale_shift", make_scale_shift},
    GpuOp{"scale_shift.grad", make_derived},
    GpuOp{"add", make_arithmetic},
    GpuOp{"sub", make_arithmetic},
    GpuOp{"mul", make_arithmetic},
    GpuOp{"div", make_written},
    GpuOp{"where", make_written},
    GpuOp{"where.grad", make_where_grad},
    GpuOp{"map", make_written},
    GpuOp{"cast", make_cast},
    GpuOp{"fill", make_fill},
    GpuOp{"stop_gradient", make_copy},
    GpuOp{"dropout", make_dropout},
    GpuOp{"drop_path", make_drop_path},
};

}  // namespace

std::span<const GpuOp> elementwise_launches() { return kOps; }

}  // namespace xrun::ops::gpu
