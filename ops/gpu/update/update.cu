// Updates of f32 weights by sgd and adamw, one thread a weight. Formulas: ops/optimizer/update_formulas.h. The scalars
// of the step are read in device memory, since the scale of gradients may be computed there. All kernels have the bits
// of the processor.
#include "ops/gpu/grid.h"
#include "ops/optimizer/update_formulas.h"

using namespace xrun::ops;

// w, g [n]: weights and their gradient; `velocity`, `m` and `v` [n] are states.
extern "C" __global__ void update_sgd(const KnownScalars* scalars, float* w, const float* g, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    float none = 0;
    w[i] = SgdRule::step(*scalars, w[i], g[i], none, none);
  }
}

extern "C" __global__ void update_momentum(const KnownScalars* scalars, float* w, const float* g, float* velocity,
                                           int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    float kept = velocity[i], none = 0;
    w[i] = MomentumRule::step(*scalars, w[i], g[i], kept, none);
    velocity[i] = kept;
  }
}

extern "C" __global__ void update_nesterov(const KnownScalars* scalars, float* w, const float* g, float* velocity,
                                           int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    float kept = velocity[i], none = 0;
    w[i] = NesterovRule::step(*scalars, w[i], g[i], kept, none);
    velocity[i] = kept;
  }
}

extern "C" __global__ void update_adamw(const KnownScalars* scalars, float* w, const float* g, float* m, float* v,
                                        int64_t n) {
  const int64_t i = thread_index();
  if (i < n) {
    float first = m[i], second = v[i];
    w[i] = AdamwRule::step(*scalars, w[i], g[i], first, second);
    m[i] = first;
    v[i] = second;
  }
}

// The running mean of weights after their update: mean += (w - mean) * take.
extern "C" __global__ void update_mean(const float* w, float* mean, int64_t n, float take) {
  const int64_t i = thread_index();
  if (i < n) {
    mean[i] = moved_mean(mean[i], w[i], take);
  }
}
