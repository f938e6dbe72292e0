// The updates that have kernels, sgd and adamw, for lanes of any type: those of the processor
// (ops/optimizer/known_rules.h) and those of GPUs (ops/gpu/update/update.cu). A lane is one weight.
#pragma once

#include "ops/optimizer/update_scalars.h"
#include "ops/simd/lane_math.h"

namespace xrun::ops {

// Returns the clipped gradient. NaN stays NaN.
template <class L>
XRUN_INLINE L clipped(const KnownScalars& u, L g) {
  return max(broadcast<L>(-u.grad_limit), min(broadcast<L>(u.grad_limit), g * u.grad_scale));
}

// The updates of one vector of weights.
//   sgd    g += decay·w; v = momentum·v + g; w -= rate·(nesterov ? g + momentum·v : v)
//   adamw  m, v as in Adam; w -= rate·(m̂ / (sqrt(v̂) + eps) + decay·w). Source: Loshchilov & Hutter, "Decoupled Weight
//          Decay Regularization", ICLR 2019.
struct SgdRule {
  template <class L>
  XRUN_INLINE static L step(const KnownScalars& u, L w, L g, L&, L&) {
    g = clipped(u, g) + w * u.decay;
    return w - g * u.rate;
  }
};

struct MomentumRule {
  template <class L>
  XRUN_INLINE static L step(const KnownScalars& u, L w, L g, L& velocity, L&) {
    g = clipped(u, g) + w * u.decay;
    velocity = velocity * u.momentum + g;
    return w - velocity * u.rate;
  }
};

struct NesterovRule {
  template <class L>
  XRUN_INLINE static L step(const KnownScalars& u, L w, L g, L& velocity, L&) {
    g = clipped(u, g) + w * u.decay;
    velocity = velocity * u.momentum + g;
    return w - (g + velocity * u.momentum) * u.rate;
  }
};

struct AdamwRule {
  template <class L>
  XRUN_INLINE static L step(const KnownScalars& u, L w, L g, L& m, L& v) {
    g = clipped(u, g);
    m = m * u.keep1 + g * u.take1;
    v = v * u.keep2 + g * g * u.take2;
    const L direction = (m * u.correct1) / (square_root(v * u.correct2) + u.eps);
    return w - (direction + w * u.decay) * u.rate;
  }
};

// The running mean of a weight: mean += (w - mean) · take.
template <class L>
XRUN_INLINE L moved_mean(L mean, L w, float take) {
  return mean + (w - mean) * take;
}

}  // namespace xrun::ops
