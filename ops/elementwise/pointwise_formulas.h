// The functions of one number and their derivatives, for the loops of the processor (ops/elementwise/pointwise.cpp) and
// the kernels of GPUs (ops/gpu/pointwise.cu): `f` computes y from x; `d` computes dx from dy and from the kept value,
// which is y or x (kUsesOutput of the operator).
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

template <class L>
XRUN_INLINE L none(L like) {
  return fill_like(like, 0);
}

struct ReluFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return rectify(x);
  }
  template <class L>
  XRUN_INLINE static L d(L y, L dy) {
    return if_less(none(y), y, dy, none(y));
  }
};

struct GeluFormula {
  template <class L>
  XRUN_INLINE static L phi(L x) {
    return (coarse_erf_lanes(x * 0.70710678118654752F) + 1.0F) * 0.5F;
  }
  template <class L>
  XRUN_INLINE static L f(L x) {
    return x * phi(x);
  }
  template <class L>
  XRUN_INLINE static L d(L x, L dy) {
    return dy * (phi(x) + x * exp_lanes(x * x * -0.5F) * 0.39894228040143268F);
  }
};

struct SiluFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return x * sigmoid_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L x, L dy) {
    const L s = sigmoid_lanes(x);
    return dy * s * (x * (1.0F - s) + 1.0F);
  }
};

struct SigmoidFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return sigmoid_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L y, L dy) {
    return dy * y * (1.0F - y);
  }
};

struct TanhFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return tanh_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L y, L dy) {
    return dy * (1.0F - y * y);
  }
};

struct ExpFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return exp_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L y, L dy) {
    return dy * y;
  }
};

struct LogFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return log_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L x, L dy) {
    return dy / x;
  }
};

struct SqrtFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return square_root(x);
  }
  template <class L>
  XRUN_INLINE static L d(L y, L dy) {
    return dy / (y + y);
  }
};

struct ErfFormula {
  template <class L>
  XRUN_INLINE static L f(L x) {
    return erf_lanes(x);
  }
  template <class L>
  XRUN_INLINE static L d(L x, L dy) {
    return dy * exp_lanes(-x * x) * 1.12837916709551257F;
  }
};

}  // namespace xrun::ops
