// The updates that have kernels, sgd and adamw, for the lanes of any instruction set.
#pragma once

#include <cstdint>

#include "ops/optimizer/optimizer.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

// Returns the clipped gradient. NaN stays NaN.
template <class L>
XRUN_INLINE L clipped(const UpdateScalars& u, L g) {
  return max(broadcast<L>(-u.grad_limit), min(broadcast<L>(u.grad_limit), g * u.grad_scale));
}

// The updates of sixteen weights.
//   sgd    g += decay·w; v = momentum·v + g; w -= rate·(nesterov ? g + momentum·v : v)
//   adamw  m, v as in Adam; w -= rate·(m̂ / (sqrt(v̂) + eps) + decay·w). Source: Loshchilov & Hutter, "Decoupled Weight
//          Decay Regularization", ICLR 2019.
struct SgdRule {
  template <class L>
  XRUN_INLINE static L step(const UpdateScalars& u, L w, L g, L&, L&) {
    g = clipped(u, g) + w * u.decay;
    return w - g * u.rate;
  }
};

struct MomentumRule {
  template <class L>
  XRUN_INLINE static L step(const UpdateScalars& u, L w, L g, L& velocity, L&) {
    g = clipped(u, g) + w * u.decay;
    velocity = velocity * u.momentum + g;
    return w - velocity * u.rate;
  }
};

struct NesterovRule {
  template <class L>
  XRUN_INLINE static L step(const UpdateScalars& u, L w, L g, L& velocity, L&) {
    g = clipped(u, g) + w * u.decay;
    velocity = velocity * u.momentum + g;
    return w - (g + velocity * u.momentum) * u.rate;
  }
};

struct AdamwRule {
  template <class L>
  XRUN_INLINE static L step(const UpdateScalars& u, L w, L g, L& m, L& v) {
    g = clipped(u, g);
    m = m * u.keep1 + g * u.take1;
    v = v * u.keep2 + g * g * u.take2;
    const L direction = (m * u.correct1) / (square_root(v * u.correct2) + u.eps);
    return w - (direction + w * u.decay) * u.rate;
  }
};

// Updates n weights with one rule; the states are those of OptimizerForm. The function is inlined into code for the
// instruction set of the caller.
template <class L, typename Rule, int kStates>
XRUN_INLINE void update_lanes(const UpdateScalars& u, float* w, const float* g, float* s0, float* s1, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    L a{};
    L b{};
    if constexpr (kStates > 0) {
      a = load_upto<L>(s0 + i, left);
    }
    if constexpr (kStates > 1) {
      b = load_upto<L>(s1 + i, left);
    }
    store_upto(w + i, Rule::step(u, load_upto<L>(w + i, left), load_upto<L>(g + i, left), a, b), left);
    if constexpr (kStates > 0) {
      store_upto(s0 + i, a, left);
    }
    if constexpr (kStates > 1) {
      store_upto(s1 + i, b, left);
    }
  }
}

// Updates n weights with the kernel of `form`. REQUIRES: the form has a kernel.
template <class L>
XRUN_INLINE void update_range(const OptimizerForm& form, const UpdateScalars& u, float* w, const float* g, float* s0,
                              float* s1, int64_t n) {
  if (form.kind == OptimizerKind::kAdamw) {
    update_lanes<L, AdamwRule, 2>(u, w, g, s0, s1, n);
  } else if (form.states == 0) {
    update_lanes<L, SgdRule, 0>(u, w, g, s0, s1, n);
  } else if (form.nesterov) {
    update_lanes<L, NesterovRule, 1>(u, w, g, s0, s1, n);
  } else {
    update_lanes<L, MomentumRule, 1>(u, w, g, s0, s1, n);
  }
}

}  // namespace xrun::ops
