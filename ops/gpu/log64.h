// The natural logarithm in f64 for GPUs. Only nvcc reads this header.
#pragma once

#include <cstdint>

namespace xrun::ops {

// log(x) for normal x > 0, within two units of the last place: x = 2^k * f with f in [sqrt(1/2), sqrt(2)), and log(f) =
// 2 atanh(s) with s = (f - 1) / (f + 1), |s| < 0.172, as a series.
__device__ inline double log64(double x) {
  constexpr double kHigh = 0.693147180369123816490;  // ln 2 in two parts; the first has 32 bits
  constexpr double kLow = 1.90821492927058770002e-10;
  const int64_t bits = __double_as_longlong(x);
  const int64_t shifted = bits - 0x3FE6A09E667F3BCDLL;  // the bits of sqrt(1/2)
  const int64_t k = shifted >> 52;
  const double f = __longlong_as_double(bits - (k << 52));
  const double s = (f - 1.0) / (f + 1.0);
  const double square = s * s;
  double sum = 0;
#pragma unroll
  for (int term = 23; term >= 3; term -= 2) {
    sum = __fma_rn(sum, square, 2.0 / term);
  }
  const auto whole = static_cast<double>(static_cast<int32_t>(k));
  return __fma_rn(whole, kHigh, __fma_rn(s, 2.0, __fma_rn(s * square, sum, whole * kLow)));
}

}  // namespace xrun::ops
