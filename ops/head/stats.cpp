#include "ops/head/stats.h"

#include <cmath>
#include <limits>

namespace xrun::ops {

float exp_f32(float x) {
  // tile_loops.h, exp_of: comparisons are written so that NaN passes through.
  const float low = -87.33F > x ? -87.33F : x;
  const float y = 88.37F < low ? 88.37F : low;
  const float n = std::nearbyint(y * 1.44269504088896341F);
  float r = std::fma(n, -0.693359375F, y);
  r = std::fma(n, 2.12194440e-4F, r);
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  p = std::fma(p * r, r, r) + 1.0F;
  if (x < -87.33F) {
    return 0;
  }
  return x == x ? std::ldexp(p, static_cast<int>(n)) : x;
}

ExpSum combine(ExpSum left, ExpSum right) {
  const float max = left.max > right.max ? left.max : right.max;
  return {max, left.sum * exp_f32(left.max - max) + right.sum * exp_f32(right.max - max)};
}

void clear(const HeadStats& stats) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (int64_t row = 0; row < stats.plane; ++row) {
    stats.max()[row] = kLowest;
    stats.sum()[row] = 0;
    stats.total()[row] = 0;
    stats.target()[row] = 0;
  }
  for (int64_t i = 0; i < stats.top_k; ++i) {
    for (int64_t row = 0; row < stats.plane; ++row) {
      stats.best(i)[row] = kLowest;
      stats.best_class(i)[row] = -1;
    }
  }
}

namespace {

// The classes of `right` are higher, so its entries go behind equal ones.
void insert(const HeadStats& stats, int64_t row, float value, int32_t which) {
  int64_t at = stats.top_k - 1;
  if (!(value > stats.best(at)[row])) {
    return;
  }
  for (; at > 0 && value > stats.best(at - 1)[row]; --at) {
    stats.best(at)[row] = stats.best(at - 1)[row];
    stats.best_class(at)[row] = stats.best_class(at - 1)[row];
  }
  stats.best(at)[row] = value;
  stats.best_class(at)[row] = which;
}

}  // namespace

void merge(const HeadStats& left, const HeadStats& right) {
  for (int64_t row = 0; row < left.plane; ++row) {
    const ExpSum both = combine({left.max()[row], left.sum()[row]}, {right.max()[row], right.sum()[row]});
    left.max()[row] = both.max;
    left.sum()[row] = both.sum;
    left.total()[row] += right.total()[row];
    // A run without the row's label leaves 0.
    left.target()[row] += right.target()[row];
  }
  for (int64_t i = 0; i < left.top_k; ++i) {
    for (int64_t row = 0; row < left.plane; ++row) {
      insert(left, row, right.best(i)[row], right.best_class(i)[row]);
    }
  }
}

}  // namespace xrun::ops
