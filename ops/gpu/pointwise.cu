// Functions of one tensor, element by element, one thread an element. Formulas: ops/elementwise/pointwise_formulas.h.
// For bf16, numbers are widened, computed in f32 and rounded to the nearest. All kernels have the bits of the
// processor.
#include "ops/elementwise/pointwise_formulas.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

template <class Formula, typename T>
__device__ void apply(const T* x, T* y, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    assign(y[i], Formula::f(to_float(x[i])));
  }
}

}  // namespace xrun::ops

extern "C" __global__ void relu_f32(const float* x, float* y, int64_t n) { apply<ReluFormula>(x, y, n); }
extern "C" __global__ void relu_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<ReluFormula>(x, y, n); }
extern "C" __global__ void gelu_f32(const float* x, float* y, int64_t n) { apply<GeluFormula>(x, y, n); }
extern "C" __global__ void gelu_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<GeluFormula>(x, y, n); }
extern "C" __global__ void silu_f32(const float* x, float* y, int64_t n) { apply<SiluFormula>(x, y, n); }
extern "C" __global__ void silu_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<SiluFormula>(x, y, n); }
extern "C" __global__ void sigmoid_f32(const float* x, float* y, int64_t n) { apply<SigmoidFormula>(x, y, n); }
extern "C" __global__ void sigmoid_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<SigmoidFormula>(x, y, n); }
extern "C" __global__ void tanh_f32(const float* x, float* y, int64_t n) { apply<TanhFormula>(x, y, n); }
extern "C" __global__ void tanh_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<TanhFormula>(x, y, n); }
extern "C" __global__ void exp_f32(const float* x, float* y, int64_t n) { apply<ExpFormula>(x, y, n); }
extern "C" __global__ void exp_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<ExpFormula>(x, y, n); }
extern "C" __global__ void log_f32(const float* x, float* y, int64_t n) { apply<LogFormula>(x, y, n); }
extern "C" __global__ void log_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<LogFormula>(x, y, n); }
extern "C" __global__ void sqrt_f32(const float* x, float* y, int64_t n) { apply<SqrtFormula>(x, y, n); }
extern "C" __global__ void sqrt_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<SqrtFormula>(x, y, n); }
extern "C" __global__ void erf_f32(const float* x, float* y, int64_t n) { apply<ErfFormula>(x, y, n); }
extern "C" __global__ void erf_bf16(const Bf16* x, Bf16* y, int64_t n) { apply<ErfFormula>(x, y, n); }
