#include "ops/head/stats.h"

#include <cmath>
#include <limits>

namespace xrun::ops {

namespace {

#include "ops/head/loops/exp_loop.h"
#include "ops/reduce/insert_best.h"

// Operations on one number instead of a vector. Like the vector instructions, maximum and minimum return the second
// operand if one is NaN.
struct Scalar {
  using F = float;
  static F broadcast(float x) { return x; }
  static F add(F a, F b) { return a + b; }
  static F mul(F a, F b) { return a * b; }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  static F max(F a, F b) { return a > b ? a : b; }
  static F min(F a, F b) { return a < b ? a : b; }
  static F round(F a) { return std::nearbyint(a); }
  static F scale_by_power(F a, F n) { return n == n ? std::ldexp(a, static_cast<int>(n)) : n; }
  static F zero_where_less(F x, F limit, F v) { return x < limit ? 0 : v; }
};

}  // namespace

float exp_f32(float x) { return exp_of<Scalar>(x); }

ExpSum combine(ExpSum left, ExpSum right) {
  // The sum is 0 only if the range has no active classes; otherwise it is at least 1.
  if (left.sum == 0 || right.sum == 0) {
    return left.sum == 0 ? right : left;
  }
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

void merge(const HeadStats& left, const HeadStats& right) {
  for (int64_t row = 0; row < left.plane; ++row) {
    const ExpSum both = combine({left.max()[row], left.sum()[row]}, {right.max()[row], right.sum()[row]});
    left.max()[row] = both.max;
    left.sum()[row] = both.sum;
    left.total()[row] += right.total()[row];
    // A range without the row's label has the target logit 0.
    left.target()[row] += right.target()[row];
  }
  for (int64_t i = 0; i < left.top_k; ++i) {
    for (int64_t row = 0; row < left.plane; ++row) {
      insert_best(left.best() + row, left.best_class() + row, left.plane, left.top_k, right.best(i)[row],
                  right.best_class(i)[row]);
    }
  }
}

}  // namespace xrun::ops
