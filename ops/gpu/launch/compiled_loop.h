// CompiledLoop: an element-wise loop that the compiler translates to PTX (ops/jit/gpu_loop.h), as part of a GpuKernel.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/types/scalar_expr.h"
#include "ops/gpu/launch/launch_list.h"

namespace xrun::ops::gpu {

class CompiledLoop {
 public:
  // Compiles the loop if `spec` says so. Errors: XG0824.
  static Result<CompiledLoop> make(const GpuSpec& spec, GpuLoop loop);
  // The loop of a scalar expression of broadcast operands (ops/loops/gpu_map.h). Errors: XG0824.
  static Result<CompiledLoop> of_map(const GpuSpec& spec, std::span<const TensorType> inputs,
                                     std::span<const TensorType> outputs, ScalarExpr expr);

  // Adds the launch for this number of elements. `operands`: addresses of all inputs, then of all results.
  void add(LaunchList& list, int64_t elements, std::vector<GpuArgument> operands) const;

 private:
  CompiledLoop(GpuLoop loop, std::shared_ptr<const std::string> text)
      : loop_(std::move(loop)), text_(std::move(text)) {}

  GpuLoop loop_;
  std::shared_ptr<const std::string> text_;
};

// The kernel of an operator that is a scalar expression of its broadcast inputs, with a result for each output.
Result<std::unique_ptr<GpuKernel>> make_expression(const GpuSpec& spec, ScalarExpr expr);

}  // namespace xrun::ops::gpu
