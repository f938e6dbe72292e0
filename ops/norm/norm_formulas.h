// The arithmetic of batch norm and layer norm for one number, for the loops of the processor and the kernels of GPUs.
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

// The norm of x, with scale = weight / sqrt(var + eps).
template <class L>
XRUN_INLINE L normalized(L x, L mean, L scale, L bias) {
  return (x - mean) * scale + bias;
}

// x̂ = (x - mean) / sqrt(var + eps), with rstd = 1 / sqrt(var + eps).
template <class L, class M>
XRUN_INLINE L standardized(L x, M mean, M rstd) {
  return (x - mean) * rstd;
}

// dx of a norm over columns: scale · (g - mean(g) - x̂ · mean(g · x̂)).
template <class L>
XRUN_INLINE L column_norm_dx(L g, L mean_g, L xhat, L mean_gx, L scale) {
  return (g - mean_g - xhat * mean_gx) * scale;
}

// dx of a norm over a row: rstd · (g - mean(g) - x̂ · mean(g · x̂)). The last three are numbers of the row.
template <class L>
XRUN_INLINE L row_norm_dx(L g, L xhat, float mean_g, float mean_gx, float rstd) {
  return (g - mean_g - xhat * mean_gx) * rstd;
}

}  // namespace xrun::ops
