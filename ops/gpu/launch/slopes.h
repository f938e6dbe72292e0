// prelu and its gradient as launches, for the operator and for batch norms that absorbed it.
#pragma once

#include "ops/gpu/launch/compiled_loop.h"

namespace xrun::ops::gpu {

// The loop of prelu: operands x and the slopes [C], result y of the type of x.
Result<CompiledLoop> slope_loop(const GpuSpec& spec, const TensorType& x, const TensorType& slope);

class SlopeGradient {
 public:
  // Errors: XG0824.
  static Result<SlopeGradient> make(const GpuSpec& spec, const TensorType& x, const TensorType& slope);

  // Adds launches that compute dx, and add to dslope the sums of each row block. `terms` has an f32 for each element of
  // x; dx may be the memory of x or dy.
  void add(LaunchList& list, const GpuArgument& x, const GpuArgument& dy, const GpuArgument& slope,
           const GpuArgument& dx, const GpuArgument& terms, const GpuArgument& dslope, int64_t blocks) const;

 private:
  SlopeGradient(GpuSpec spec, TensorType x, CompiledLoop loop)
      : spec_(std::move(spec)), x_(std::move(x)), loop_(std::move(loop)) {}

  GpuSpec spec_;
  TensorType x_;
  CompiledLoop loop_;
};

}  // namespace xrun::ops::gpu
