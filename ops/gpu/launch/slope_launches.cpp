// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/column_sums.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/slopes.h"

namespace xrun::ops::gpu {
namespace {

// The slopes [C] as an operand that is broadcast to x, [C, 1, 1] for images.
TensorType operand_type(const TensorType& x, TensorType slope) {
  slope.dims.resize(static_cast<size_t>(x.rank() - 1), 1);
  return slope;
}

Result<std::unique_ptr<GpuKernel>> make_forward(const GpuSpec& spec) {
  XRUN_ASSIGN(const CompiledLoop loop, slope_loop(spec, spec.node.inputs[0], spec.node.inputs[1]));
  return gpu_kernel_of(spec, [spec, loop](LaunchList& list, int64_t blocks) {
    loop.add(list, spec.elements(spec.node.outputs[0], blocks), {in(0), in(1), out(0)});
  });
}

// Inputs: x, dy, slope. Outputs: dx, dslope.
Result<std::unique_ptr<GpuKernel>> make_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const SlopeGradient gradient, SlopeGradient::make(spec, spec.node.inputs[0], spec.node.inputs[2]));
  const auto run = [gradient](LaunchList& list, int64_t blocks) {
    gradient.add(list, in(0), in(1), in(2), out(0), scratch(), out(1), blocks);
  };
  return gpu_kernel_of(spec, run, spec.for_blocks(spec.elements(spec.node.inputs[0], 1) * 4));
}

constexpr std::array kOps{GpuOp{"prelu", make_forward}, GpuOp{"prelu.grad", make_gradient}};

}  // namespace

Result<CompiledLoop> slope_loop(const GpuSpec& spec, const TensorType& x, const TensorType& slope) {
  ScalarExpr expr;
  const ScalarId v = expr.input(0), none = expr.constant(0);
  expr.set_results({expr.make(ScalarOp::kSelect, expr.make(ScalarOp::kLess, none, v), v,
                              expr.make(ScalarOp::kMul, v, expr.input(1)))});
  return CompiledLoop::of_map(spec, std::array{x, operand_type(x, slope)}, std::span(&x, 1), std::move(expr));
}

Result<SlopeGradient> SlopeGradient::make(const GpuSpec& spec, const TensorType& x, const TensorType& slope) {
  ScalarExpr expr;
  const ScalarId v = expr.input(0), dy = expr.input(1), none = expr.constant(0);
  const ScalarId above = expr.make(ScalarOp::kLess, none, v);
  expr.set_results({expr.make(ScalarOp::kSelect, above, dy, expr.make(ScalarOp::kMul, dy, expr.input(2))),
                    expr.make(ScalarOp::kSelect, above, none, expr.make(ScalarOp::kMul, dy, v))});
  TensorType terms = x;
  terms.dtype = DType::kF32;
  XRUN_ASSIGN(CompiledLoop loop, CompiledLoop::of_map(spec, std::array{x, x, operand_type(x, slope)},
                                                      std::array{x, terms}, std::move(expr)));
  return SlopeGradient(spec, x, std::move(loop));
}

void SlopeGradient::add(LaunchList& list, const GpuArgument& x, const GpuArgument& dy, const GpuArgument& slope,
                        const GpuArgument& dx, const GpuArgument& terms, const GpuArgument& dslope,
                        int64_t blocks) const {
  loop_.add(list, spec_.elements(x_, blocks), {x, dy, slope, dx, terms});
  add_column_sums(list, DType::kF32, terms, dslope, spec_.elements(x_, 1) / x_.dims[1], x_.dims[1], blocks);
}

std::span<const GpuOp> slope_launches() { return kOps; }

}  // namespace xrun::ops::gpu
