// Updates contiguous ranges of f32 weights: with kernels for sgd and adamw (graph/settings/known_update.h), and with
// compiled or interpreted loops for all other rules (ops/optimizer/own_update.h). Every element is updated
// independently, so a tensor may be divided into ranges anywhere. Norms that an update reads are computed before it
// (ops/optimizer/update_norms.h). Sources: docs/internals/algorithms.md, "Optimizers".
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "graph/types/attr.h"
#include "ops/optimizer/own_update.h"
#include "ops/simd/isa.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

enum class OptimizerKind { kSgd, kAdamw, kOwn };

// The addresses of the states of a range of weights, then of their running mean if the form keeps one, then nulls.
inline constexpr int kMostKeptStates = kMostUpdateStates + 1;
using UpdateStates = std::array<float*, kMostKeptStates>;

// An optimizer with its arguments. Each weight tensor has `states` f32 arrays of its size. The states of the two
// kernels start at zero:
//   sgd    s0: velocity (only with momentum)
//   adamw  s0: m, s1: v
struct OptimizerForm {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int states = 0;
  double ema = 0;  // share of the running mean kept per step; 0: no mean. Its array follows the states
  std::shared_ptr<const OwnUpdate> own;  // the rule of kOwn

  int kept_states() const { return states + (ema > 0 ? 1 : 0); }
};

// Returns the form of `optimizer = name(arguments)`. A rule without a kernel is compiled for `compiled_for`, or
// interpreted without it. Errors: those of read_update_rule and OwnUpdate::make.
Result<OptimizerForm> optimizer_form(const CallSpec& spec, std::optional<Isa> compiled_for = {}, double ema = 0);

// The scalars of one step for one tensor, computed in f64 (docs/internals/determinism.md, "Scalars").
struct UpdateScalars {
  float rate = 0;
  float decay = 0;  // 0 if the tensor does not decay
  float momentum = 0;
  float keep1 = 0;  // beta1
  float take1 = 0;  // 1 - beta1
  float keep2 = 0;
  float take2 = 0;
  float correct1 = 1;  // 1 / (1 - beta1^t)
  float correct2 = 1;  // 1 / (1 - beta2^t)
  float eps = 0;
  float grad_scale = 1;  // clipping by norm: factor on each gradient, applied first
  float grad_limit = std::numeric_limits<float>::infinity();  // clipping by value: bound, applied after it
  std::array<float, kMostUpdateScalars> own{};                // OwnUpdate::scalars, computed with norms of 0
};

// Returns the scalars of step `step`, which counts from 0. `rate` is the value of the learning-rate curve times the
// factor of the group. `decay` is the group's weight decay, or form.weight_decay if the group has none. `decays` is
// false for tensors of one dimension.
UpdateScalars update_scalars(const OptimizerForm& form, double rate, double decay, bool decays, int64_t step,
                             double grad_scale = 1, double grad_limit = std::numeric_limits<double>::infinity());

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
// instruction set of the caller, such as head sweeps, which call it on the rows of a tile.
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

// Updates n weights with the rule of `form`, compiled for `isa`, and then their running mean, if there is one:
// mean += (w - mean) · (1 - ema).
void update(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, float* w, const float* g,
            const UpdateStates& states, int64_t n);

// Returns the sum of squares of a gradient in f64, for clip = norm. It has sixteen running sums, which are added in a
// fixed tree (ops/simd/square_sums.h).
double sum_of_squares(Isa isa, const float* g, int64_t n);

}  // namespace xrun::ops
