// Loops over weights with the rules of ops/optimizer/update_formulas.h, for the lanes of any instruction set.
#pragma once

#include <cstdint>

#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/update_formulas.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

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
