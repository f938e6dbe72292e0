// Gradients of the functions of pointwise.cu: dx from the kept value, which is x or y (ops/elementwise/pointwise.cpp,
// kUsesOutput), and dy. One thread an element. All kernels have the bits of the processor.
#include "ops/elementwise/pointwise_formulas.h"
#include "ops/gpu/grid.h"

using namespace xrun::ops;

namespace xrun::ops {

template <class Formula, typename T>
__device__ void apply(const T* kept, const T* dy, T* dx, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    assign(dx[i], Formula::d(to_float(kept[i]), to_float(dy[i])));
  }
}

}  // namespace xrun::ops

extern "C" __global__ void relu_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<ReluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void relu_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<ReluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void gelu_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<GeluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void gelu_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<GeluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void silu_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<SiluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void silu_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<SiluFormula>(kept, dy, dx, n);
}
extern "C" __global__ void sigmoid_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<SigmoidFormula>(kept, dy, dx, n);
}
extern "C" __global__ void sigmoid_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<SigmoidFormula>(kept, dy, dx, n);
}
extern "C" __global__ void tanh_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<TanhFormula>(kept, dy, dx, n);
}
extern "C" __global__ void tanh_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<TanhFormula>(kept, dy, dx, n);
}
extern "C" __global__ void exp_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<ExpFormula>(kept, dy, dx, n);
}
extern "C" __global__ void exp_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<ExpFormula>(kept, dy, dx, n);
}
extern "C" __global__ void log_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<LogFormula>(kept, dy, dx, n);
}
extern "C" __global__ void log_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<LogFormula>(kept, dy, dx, n);
}
extern "C" __global__ void sqrt_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<SqrtFormula>(kept, dy, dx, n);
}
extern "C" __global__ void sqrt_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<SqrtFormula>(kept, dy, dx, n);
}
extern "C" __global__ void erf_grad_f32(const float* kept, const float* dy, float* dx, int64_t n) {
  apply<ErfFormula>(kept, dy, dx, n);
}
extern "C" __global__ void erf_grad_bf16(const Bf16* kept, const Bf16* dy, Bf16* dx, int64_t n) {
  apply<ErfFormula>(kept, dy, dx, n);
}
