#include "ops/gpu/launch/compiled_loop.h"

#include "ops/jit/compiler.h"
#include "ops/loops/gpu_map.h"

namespace xrun::ops::gpu {

Result<CompiledLoop> CompiledLoop::make(const GpuSpec& spec, GpuLoop loop) {
  loop.expr.prune();
  XRUN_TRY(check(loop));
  std::string text;
  if (spec.node.compile) {
    XRUN_ASSIGN(text, compile_ptx(loop, spec.target));
  }
  return CompiledLoop(std::move(loop), std::make_shared<const std::string>(std::move(text)));
}

Result<CompiledLoop> CompiledLoop::of_map(const GpuSpec& spec, std::span<const TensorType> inputs,
                                          std::span<const TensorType> outputs, ScalarExpr expr) {
  expr.prune();
  XRUN_ASSIGN(GpuLoop loop, gpu_map(inputs, outputs, std::move(expr), spec.rows(spec.most_blocks)));
  return make(spec, std::move(loop));
}

void CompiledLoop::add(LaunchList& list, int64_t elements, std::vector<GpuArgument> operands) const {
  operands.push_back(argument_of(elements));
  list.add_launch(*text_, kGpuKernel, {gpu_blocks(loop_, elements), 1, 1}, {kGpuThreads, 1, 1}, std::move(operands));
}

Result<std::unique_ptr<GpuKernel>> make_expression(const GpuSpec& spec, ScalarExpr expr) {
  XRUN_ASSIGN(const CompiledLoop loop,
              CompiledLoop::of_map(spec, spec.node.inputs, spec.node.outputs, std::move(expr)));
  return gpu_kernel_of(spec, [spec, loop](LaunchList& list, int64_t blocks) {
    std::vector<GpuArgument> operands;
    for (size_t i = 0; i < spec.node.inputs.size(); ++i) {
      operands.push_back(in(static_cast<int>(i)));
    }
    for (size_t i = 0; i < spec.node.outputs.size(); ++i) {
      operands.push_back(out(static_cast<int>(i)));
    }
    loop.add(list, spec.elements(spec.node.outputs[0], blocks), std::move(operands));
  });
}

}  // namespace xrun::ops::gpu
